// The bytes of one connection, plain or inside TLS.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "hone/serve/http/signal.h"

namespace boost::asio::ssl {
class context;
}

namespace hone::serve {

using boost::system::error_code;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual asio::awaitable<error_code> handshake() = 0;
  // How many bytes arrived; 0 when the peer is gone.
  virtual asio::awaitable<size_t> read_some(asio::mutable_buffer room) = 0;
  virtual asio::awaitable<bool> write(asio::const_buffer bytes) = 0;
  virtual void finish_sending() = 0;  // the peer sees the end, and may still be read
  virtual void close() = 0;           // at once; waiting reads and writes return
};

std::unique_ptr<Transport> plain_transport(asio::ip::tcp::socket socket);
enum class TlsSide { server, client };
std::unique_ptr<Transport> tls_transport(asio::ip::tcp::socket socket, asio::ssl::context& context,
                                         TlsSide side = TlsSide::server);

// Accepts any certificate: for measuring a server, not for trusting it.
std::shared_ptr<asio::ssl::context> tls_client_context();
// TLS 1.2 or newer. Throws UserError(usage) naming the file that cannot be read.
std::shared_ptr<asio::ssl::context> tls_context(const std::string& certificate_file, const std::string& key_file);

}  // namespace hone::serve
