/* Keeps a rank on a core of its own, so that the system does not put two that wait for each other on one. */
#ifndef PLAIT_BENCH_BIND_H
#define PLAIT_BENCH_BIND_H

enum { NOT_BOUND = -1 };

/* Binds the calling thread to the core of local rank `local_rank` of `local_size`: one
 * hardware thread of each core first, in the system's order. Returns the CPU's number,
 * or NOT_BOUND, and nothing changes, when there are fewer CPUs than ranks or the system refuses.
 * Every rank has to be allowed the same CPUs. */
int bind_to_core(int local_rank, int local_size);

/* CPUs that the calling thread may run on; at least 1. */
int bind_allowed(void);

#endif
