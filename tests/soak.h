/* A soak: steps drawn from a seed, each of several items on several communicators, in one of several manners. */
#ifndef PLAIT_TESTS_SOAK_H
#define PLAIT_TESTS_SOAK_H

#include "soak_item.h"

enum { COMMS = 4, ITEMS = 5, MOST_SIZE = 1 << 19 };

/* How a soak goes about its calls, which the seed decides. */
struct tour {
    enum ranks_way way;
    int size;
    const char *plan;
    bool plain;       /* blocking calls and private memory alone */
    unsigned salt;    /* of all that should make no difference */
    bool meddled;     /* another thread of each rank asks and allocates meanwhile */
    plait_status end; /* what the soak ends with, soon: a rank is killed, or aborts; PLAIT_OK: nothing */
    int culprit;
};

struct soak {
    struct rank *rank;
    const struct tour *tour;
    struct made_ops ops;
    plait_comm *comms[COMMS]; /* the world's first; NULL: this rank is not in it */
    struct item items[ITEMS];
    uint64_t digest;
    bool over; /* as the tour has it */
};

/* Makes operations, items and communicators; false if that failed. */
bool soak_open(struct soak *soak, struct rank *rank);
/* Ends the world, too, if the soak is over before its time. */
void soak_close(struct soak *soak);
/* Draws and carries out a step, and checks all that came out. */
void soak_step(struct soak *soak, int step);

#endif
