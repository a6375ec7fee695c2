/* Faults: what went wrong, kept with its sentence. */
#ifndef PLAIT_FAULT_FAULT_H
#define PLAIT_FAULT_FAULT_H

#include "base/status.h"
#include "plait.h"

struct fault_record {
    plait_fault fault; /* kind PLAIT_FAULT_NONE: nothing is wrong */
    char sentence[SENTENCE_BYTES];
};

/* Who is to blame: a peer as its card told. */
struct culprit {
    int rank; /* world rank; -1: nobody in particular */
    int64_t pid;
    const char *host;
};

/* Fills a record. `operation` and `call` may be NULL. The sentence is composed of all of it: "world,
 * operation 4711, all-reduce of 8 f32, sum: rank 2 (pid 99 on h) died: its process is gone". */
void fault_write(struct fault_record *record, plait_fault_kind kind, plait_status status,
                 const struct culprit *culprit, const char *communicator, uint64_t number,
                 const char *operation, const char *call, const char *evidence);

/* Copies a fault out to a caller's struct of its own struct_size. */
plait_status fault_give(const struct fault_record *record, plait_fault *fault);

#endif
