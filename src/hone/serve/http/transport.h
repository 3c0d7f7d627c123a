// The byte stream of one connection, plain or TLS.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "hone/serve/http/signal.h"
#include "hone/serve/http/url.h"

namespace boost::asio::ssl {
class context;
}

namespace hone::serve {

using boost::system::error_code;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual asio::awaitable<error_code> handshake() = 0;
  // The number of bytes read; 0 at the end.
  virtual asio::awaitable<size_t> read_some(asio::mutable_buffer room) = 0;
  // After a read of 0 bytes: returns when the client has closed completely, or when the connection is closed here.
  virtual asio::awaitable<void> until_gone() = 0;
  // Writes a few bytes without waiting: a client that has closed resets the connection when it receives them. False: none were
  // accepted.
  virtual bool try_write(std::string_view bytes) = 0;
  virtual asio::awaitable<bool> write(asio::const_buffer bytes) = 0;
  virtual void finish_sending() = 0;  // the client sees the end, and may still be read
  virtual void close() = 0;           // at once; waiting reads and writes return
};

std::unique_ptr<Transport> plain_transport(asio::ip::tcp::socket socket);
enum class TlsSide { server, client };
std::unique_ptr<Transport> tls_transport(asio::ip::tcp::socket socket, asio::ssl::context& context,
                                         TlsSide side = TlsSide::server);

// A client for `host` only: the certificate must be valid for it and trusted.
std::unique_ptr<Transport> trusting_transport(asio::ip::tcp::socket socket, asio::ssl::context& context, const std::string& host);
std::shared_ptr<asio::ssl::context> tls_trusting_context(const TrustedCertificates& trusted);
// Accepts any certificate: for measuring a server, not for trusting it.
std::shared_ptr<asio::ssl::context> tls_client_context();
// TLS 1.2 or newer. Throws UserError(usage) naming the file that cannot be read.
std::shared_ptr<asio::ssl::context> tls_context(const std::string& certificate_file, const std::string& key_file);

}  // namespace hone::serve
