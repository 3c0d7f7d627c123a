#include "hone/cli/arguments/arg.h"

namespace hone::cli {

bool ArgumentGroup::uses_factory_dialect() const {
  const Arg<std::string> dialect(*this, "dialect");
  return *dialect == "factory";
}

template <>
bool Arg<bool>::operator*() const {
  return exists() && options_->flag(option_);
}
template <>
int64_t Arg<int64_t>::operator*() const {
  return options_->integer(option_);
}
template <>
double Arg<double>::operator*() const {
  return options_->real(option_);
}
template <>
std::string Arg<std::string>::operator*() const {
  return text();
}
template <>
std::vector<std::string> Arg<std::vector<std::string>>::operator*() const {
  return exists() ? options_->list(option_) : std::vector<std::string>{};
}
template <>
std::vector<double> Arg<std::vector<double>>::operator*() const {
  return exists() ? options_->reals(option_) : std::vector<double>{};
}
template <>
Json Arg<Json>::operator*() const {
  return exists() ? options_->json(option_) : Json();
}

}  // namespace hone::cli
