/* A world for process groups: its ranks meet in a c10d store. */
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "plait.h"

namespace plait_torch {

struct World {
    explicit World(plait_world *handle_) : handle(handle_)
    {
    }
    ~World();
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    plait_world *const handle;
};

/*
 * Joins a world of `size` ranks and returns once all are there, or throws.
 * `timeout` is the deadline of the start and of each operation; 0 or less is none.
 */
std::shared_ptr<World> world_create(c10d::Store &store, int rank, int size, std::chrono::milliseconds timeout);

/* The milliseconds that plait.h takes for a deadline of torch's; none for 0, negative, and the greatest. */
int64_t deadline_ms(std::chrono::milliseconds timeout);

} // namespace plait_torch
