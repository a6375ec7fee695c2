/* The start of a world: its ranks find each other, trade cards, connect, and meet for the first time. */
#ifndef PLAIT_START_H
#define PLAIT_START_H

#include <stddef.h>

#include "plait.h"

struct world;

/* Brings a world to life, with its communicator of all ranks. What a failure leaves is the caller's to free. */
plait_status world_start(struct world *world, const plait_world_options *options);

/* Bytes of the staging lane of its own communicator. */
size_t world_lane_size(const struct world *world);

#endif
