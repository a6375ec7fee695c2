/* Where the ranks of one program meet outside of what is timed: a small shared file, never the
 * library under test. */
#ifndef PLAIT_COMPARE_CONTROL_H
#define PLAIT_COMPARE_CONTROL_H

#include <stdbool.h>

enum { RANKS_MOST = 64, ORDER_SIZE = 128 };

/* Maps `path`, which the driver has made afresh. Prints a sentence and returns false on failure. */
bool control_open(const char *path, int rank, int ranks);

/* Returns when every rank is here. Spins briefly, then sleeps: the ranks of peers whose turn it
 * is not must not take the cores from the others. */
void control_barrier(void);

/* The greatest of what the ranks bring. */
double control_most(double mine);

/* Rank 0's text, ORDER_SIZE bytes, to all. */
void control_share(char *text);

#endif
