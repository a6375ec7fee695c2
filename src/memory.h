/* Memory that peers read in place, as callers have it. */
#ifndef PLAIT_MEMORY_H
#define PLAIT_MEMORY_H

#include "world.h"

/* When the world's endpoint is there, and before it goes. Adopted buffers are private memory again then. */
void memory_open(struct world *world);
void memory_close(struct world *world);

#endif
