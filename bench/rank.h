/* One rank's part: joins the world, goes through the rows, and on rank 0 reports them. */
#ifndef PLAIT_BENCH_RANK_H
#define PLAIT_BENCH_RANK_H

#include "options.h"

/* Returns the exit status. With `group` NULL, the environment says which rank this is; else
 * it is thread `number` of options->threads. */
int rank_run(const struct options *options, plait_thread_group *group, int number);

#endif
