// Loops for optimizers that update parameters one by one, each with its own state.
#pragma once
#include <string>
#include <vector>

#include "hone/optim/optimizer.h"

namespace hone::optim {

template <class State>
using PerParameterState = std::vector<std::vector<State>>;  // by group, parallel to its parameters

// update(group, name, parameter, state) for every parameter that has a gradient.
template <class State, class Update>
void update_each(const std::vector<ParameterGroup>& groups, PerParameterState<State>& states, Update update) {
  at::NoGradGuard no_grad;
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].parameters.size(); ++i)
      if (Tensor parameter = groups[g].parameters[i]; parameter.grad().defined())
        update(groups[g], groups[g].names[i], parameter, states[g][i]);
}

// look(name, state) for every parameter.
template <class State, class Look>
void visit_each(const std::vector<ParameterGroup>& groups, PerParameterState<State>& states, Look look) {
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < states[g].size(); ++i) look(groups[g].names[i], states[g][i]);
}

}  // namespace hone::optim
