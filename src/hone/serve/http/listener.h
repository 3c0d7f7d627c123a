// Accepts connections on one address and counts them. I/O thread only.
#pragma once
#include <memory>
#include <set>
#include <string>

#include "hone/serve/http/connection.h"

namespace hone::serve {

struct ListenPort {
  int number = 0;      // 0: any
  bool fixed = false;  // taken by another program is an error; otherwise the next free one is used
};

// Throws UserError(usage) if the address is not available.
void require_port(const std::string& host, int port);

class Listener {
 public:
  // Throws UserError(usage) if the address is not available.
  Listener(const asio::any_io_executor& executor, const std::string& host, ListenPort port,
           std::shared_ptr<asio::ssl::context> tls, Service& service, const HttpLimits& limits);

  std::string address() const;  // http://127.0.0.1:8000
  asio::awaitable<void> accept_clients();
  void stop_accepting();
  void send_idle_clients_away();  // and the others after their responses
  void close_clients();           // at once
  size_t clients() const { return clients_->size(); }

 private:
  using Clients = std::set<std::shared_ptr<Connection>>;
  asio::awaitable<void> serve(asio::ip::tcp::socket socket);

  asio::any_io_executor executor_;
  asio::ip::tcp::acceptor acceptor_;
  std::shared_ptr<asio::ssl::context> tls_;
  Service& service_;
  HttpLimits limits_;
  std::shared_ptr<BodyBudget> bodies_;
  std::shared_ptr<Clients> clients_ = std::make_shared<Clients>();
  std::string host_;
  int port_ = 0;
};

}  // namespace hone::serve
