/* Streams of calls that go with any way of running ranks: threads, processes, forced plans. */
#ifndef PLAIT_TESTS_STREAMS_H
#define PLAIT_TESTS_STREAMS_H

#include "ranks.h"

/* Kinds, types, sizes, roots and layouts change from call to call. */
void stream_everything(struct rank *rank);

/* Small calls back to back, without a pause in which a late rank could catch up unnoticed. */
void stream_small(struct rank *rank);

/* The same inputs give the same bits, whoever comes first; and on all ranks (needs STREAM_SHARED bytes). */
void stream_repeats(struct rank *rank);

/* Megabytes, so that chunks follow each other through the staging and it wraps around. */
void stream_large(struct rank *rank);

enum { STREAM_SHARED = RANKS_MOST * 8 };

#endif
