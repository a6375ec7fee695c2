/* What messages and barriers agree on. */
#pragma once

#include <cstdint>

namespace plait_torch {

/* The messages of monitored barriers have this tag to themselves. */
constexpr int barrier_tag = INT32_MAX;

} // namespace plait_torch
