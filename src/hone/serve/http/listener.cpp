#include "hone/serve/http/listener.h"

#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "hone/base/error.h"
#include "hone/base/log.h"

namespace hone::serve {
namespace {

using asio::ip::tcp;
constexpr int kPortsTried = 100;
constexpr int kSendBuffer = 64 << 10;  // kernel memory that a client that does not read can occupy

// A connection takes a file descriptor; the soft limit is often 1024.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

tcp::endpoint endpoint_of(const asio::any_io_executor& executor, const std::string& host, int port) {
  error_code failure;
  auto found = tcp::resolver(executor).resolve(host, std::to_string(port), tcp::resolver::passive, failure);
  if (failure || found.empty())
    throw UserError(ExitCode::usage, fmt::format("`host` {}: {}", host, failure.message()),
                    "127.0.0.1 is this machine, 0.0.0.0 every network it is on");
  return *found.begin();
}

UserError cannot_listen(const std::string& host, int port, const error_code& failure) {
  if (failure == asio::error::address_in_use)
    return UserError(ExitCode::usage, fmt::format("port {} of {} is taken by another program", port, host),
                     "choose another `port`, or leave it out for the next free one");
  return UserError(ExitCode::usage, fmt::format("cannot listen on {} port {}: {}", host, port, failure.message()),
                   "choose another `port` or `host`");
}

}  // namespace

void require_port(const std::string& host, int port) {
  asio::io_context io;
  auto endpoint = endpoint_of(io.get_executor(), host, port);
  tcp::acceptor acceptor(io, endpoint.protocol());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  error_code failure;
  acceptor.bind(endpoint, failure);
  if (!failure) acceptor.listen(1, failure);
  if (failure) throw cannot_listen(host, port, failure);
}

Listener::Listener(const asio::any_io_executor& executor, const std::string& host, ListenPort wanted,
                   std::shared_ptr<asio::ssl::context> tls, Service& service, const HttpLimits& limits)
    : executor_(executor),
      acceptor_(executor),
      tls_(std::move(tls)),
      service_(service),
      limits_(limits),
      bodies_(std::make_shared<BodyBudget>(limits.all_bodies, limits.each_bodies)),
      host_(host) {
  allow_many_files();
  const int port = wanted.number;
  auto endpoint = endpoint_of(executor, host, port);
  acceptor_.open(endpoint.protocol());
  acceptor_.set_option(tcp::acceptor::reuse_address(true));
  error_code failure;
  for (int tried = 0; tried < (wanted.fixed ? 1 : kPortsTried); ++tried) {
    endpoint.port(static_cast<uint16_t>(port == 0 ? 0 : std::min(port + tried, 65535)));
    acceptor_.bind(endpoint, failure);
    if (!failure) acceptor_.listen(1024, failure);
    if (failure != asio::error::address_in_use) break;
  }
  if (failure) throw cannot_listen(host, port, failure);
  port_ = acceptor_.local_endpoint().port();
  if (port != 0 && port_ != port) log::warning("port {} is taken; using {}", port, port_);
}

std::string Listener::address() const {
  bool numbers_of_six = host_.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}", tls_ ? "https" : "http", numbers_of_six ? "[" + host_ + "]" : host_, port_);
}

asio::awaitable<void> Listener::accept_clients() {
  while (acceptor_.is_open()) {
    error_code failure;
    auto socket = co_await acceptor_.async_accept(executor_, asio::redirect_error(asio::use_awaitable, failure));
    if (failure == asio::error::operation_aborted) co_return;
    if (failure) {  // out of descriptors, or the client left: the next accept may succeed
      asio::steady_timer pause(executor_, std::chrono::milliseconds(20));
      co_await pause.async_wait(asio::use_awaitable);
      continue;
    }
    if (clients_->size() >= limits_.connections) continue;  // closes the socket
    asio::co_spawn(executor_, serve(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> Listener::serve(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  auto endpoint = socket.remote_endpoint(ignored);
  auto client = ignored ? std::string() : endpoint.address().to_string();
  auto transport = tls_ ? tls_transport(std::move(socket), *tls_) : plain_transport(std::move(socket));
  auto connection = std::make_shared<Connection>(executor_, std::move(transport), service_, limits_, bodies_, std::move(client));
  auto clients = clients_;
  clients->insert(connection);
  try {
    co_await connection->run();
  } catch (const std::exception& error) {
    log::error("a connection ended: {}", error.what());
    connection->close();
  }
  clients->erase(connection);
}

void Listener::stop_accepting() {
  error_code ignored;
  acceptor_.close(ignored);
}

void Listener::send_idle_clients_away() {
  auto clients = *clients_;
  for (const auto& client : clients) client->drain();
}

void Listener::close_clients() {
  auto clients = *clients_;
  for (const auto& client : clients) client->close();
}

}  // namespace hone::serve
