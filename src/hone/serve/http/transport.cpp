#include "hone/serve/http/transport.h"

#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>

#include "hone/base/error.h"

namespace hone::serve {
namespace {

using asio::ip::tcp;
constexpr auto quietly = [](error_code& failure) { return asio::redirect_error(asio::use_awaitable, failure); };

// Common part of plain and TLS sockets.
template <class Stream>
class StreamTransport : public Transport {
 public:
  template <class... Arguments>
  explicit StreamTransport(Arguments&&... arguments) : stream_(std::forward<Arguments>(arguments)...) {}

  asio::awaitable<size_t> read_some(asio::mutable_buffer room) override {
    error_code failure;
    size_t count = co_await stream_.async_read_some(room, quietly(failure));
    ended_ = failure == asio::error::eof;
    co_return failure ? 0 : count;
  }

  asio::awaitable<bool> write(asio::const_buffer bytes) override {
    error_code failure;
    co_await asio::async_write(stream_, bytes, quietly(failure));
    co_return !failure;
  }

  void finish_sending() override {
    error_code ignored;
    stream_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
  }

  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 protected:
  Stream stream_;
  bool ended_ = false;  // the client closed cleanly
};

class PlainTransport : public StreamTransport<tcp::socket> {
 public:
  explicit PlainTransport(tcp::socket socket) : StreamTransport(std::move(socket)) {}

  asio::awaitable<error_code> handshake() override { co_return error_code(); }

  asio::awaitable<void> until_gone() override {
    error_code ignored;
    if (ended_) co_await stream_.async_wait(tcp::socket::wait_error, quietly(ignored));
  }

  bool try_write(std::string_view bytes) override {
    return ::send(stream_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
  }
};

class TlsTransport : public StreamTransport<asio::ssl::stream<tcp::socket>> {
 public:
  TlsTransport(tcp::socket socket, asio::ssl::context& context, TlsSide side)
      : StreamTransport(std::move(socket), context), side_(side) {}

  asio::awaitable<error_code> handshake() override {
    error_code failure;
    co_await stream_.async_handshake(side_ == TlsSide::server ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
                                     quietly(failure));
    co_return failure;
  }

  // A TLS connection is closed in both directions at once.
  asio::awaitable<void> until_gone() override { co_return; }
  bool try_write(std::string_view) override { return false; }

  void expect(const std::string& host) {
    stream_.set_verify_mode(asio::ssl::verify_peer);
    stream_.set_verify_callback(asio::ssl::host_name_verification(host));
    ::SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
  }

 private:
  TlsSide side_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(tcp::socket socket) { return std::make_unique<PlainTransport>(std::move(socket)); }

std::unique_ptr<Transport> tls_transport(tcp::socket socket, asio::ssl::context& context, TlsSide side) {
  return std::make_unique<TlsTransport>(std::move(socket), context, side);
}

std::unique_ptr<Transport> trusting_transport(tcp::socket socket, asio::ssl::context& context, const std::string& host) {
  auto transport = std::make_unique<TlsTransport>(std::move(socket), context, TlsSide::client);
  transport->expect(host);
  return transport;
}

std::shared_ptr<asio::ssl::context> tls_trusting_context(const TrustedCertificates& trusted) {
  auto context = tls_client_context();
  // Loaded one by one, not by set_default_verify_paths(), whose store loaders crash together with Arrow's own OpenSSL.
  error_code ignored;
  context->load_verify_file(trusted.file.empty() ? ::X509_get_default_cert_file() : trusted.file, ignored);
  context->add_verify_path(trusted.folder.empty() ? ::X509_get_default_cert_dir() : trusted.folder, ignored);
  return context;
}

std::shared_ptr<asio::ssl::context> tls_client_context() {
  return std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
}

std::shared_ptr<asio::ssl::context> tls_context(const std::string& certificate_file, const std::string& key_file) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression);
  error_code failure;
  context->use_certificate_chain_file(certificate_file, failure);
  if (failure)
    throw UserError(ExitCode::usage,
                    fmt::format("{}: no certificate can be read from it: {}", certificate_file, failure.message()),
                    "`ssl_certfile` is a PEM file");
  context->use_private_key_file(key_file, asio::ssl::context::pem, failure);
  if (failure)
    throw UserError(ExitCode::usage, fmt::format("{}: not the certificate's private key: {}", key_file, failure.message()),
                    "`ssl_keyfile` is a PEM file that belongs to `ssl_certfile`");
  return context;
}

}  // namespace hone::serve
