// OpenAI's and Anthropic's APIs for the base model and the tenants' sampler weights. I/O thread.
#pragma once
#include "hone/serve/routes.h"
#include "hone/tinker/api/call.h"

namespace hone::tinker {

class OpenAiApi {
 public:
  OpenAiApi(const serve::ServedModel& served, Services& services, serve::Workers& workers, serve::MediaThreads& media)
      : served_(served), services_(services), workers_(workers), media_(media) {}

  // Null: not a route of this server.
  static const serve::Route* find_route(std::string_view method, std::string_view path);
  // A request's model is the base model's name, a checkpoint's tinker:// path, or a sampler's id.
  boost::asio::awaitable<void> dispatch(serve::Exchange& exchange, const serve::Route& route, std::string tenant);

 private:
  const serve::ServedModel& served_;
  Services& services_;
  serve::Workers& workers_;
  serve::MediaThreads& media_;
  serve::Admission admission_{services_.loop.engine(), services_.metrics};
};

}  // namespace hone::tinker
