/* Proving plans: the parts of plan_verify().
 *
 * A plan is run by all ranks at once, on symbols in place of numbers. What ranks tell each other
 * doesn't depend on timing, so one run stands for all: vector clocks say which reads and writes the
 * signals and messages put in order, and the rest are races, whether or not they would have shown in
 * this run. */
#ifndef PLAIT_COLLECTIVES_VERIFY_H
#define PLAIT_COLLECTIVES_VERIFY_H

#include <stdint.h>

#include "collectives/plan.h"

/* ------------------------------------------- values: what a cell may hold */

enum value_kind {
    VALUE_INPUT, /* a block of a rank's input */
    VALUE_FOLD,  /* two values combined, left and right */
    VALUE_RESULT /* a value divided and rounded */
};

/* Values are numbered from 1, and equal ones have one number: so two ranks that
 * hold one number folded the same contributions in the same order. */
struct value {
    enum value_kind kind;
    int left, right; /* rank and block of an input; the numbers of what was folded; of what was rounded */
    int block;       /* of the input, which all contributions to a value share */
};

struct values {
    int words; /* of 64 ranks, in a set of contributors */
    int ranks;
    int count, room; /* number 0 is no value */
    struct value *all;
    uint64_t *contributors;
    int *table; /* numbers by hash; a power of two of places, 0 is free */
    size_t table_size;
};

bool values_open(struct values *values, int ranks);
void values_close(struct values *values);

/* A value's number, or 0 without memory. */
int value_input(struct values *values, int rank, int block);
int value_fold(struct values *values, int left, int right);
int value_result(struct values *values, int of);

/* Why two values must not be folded, in `why`; true if they may. */
bool values_fit(const struct values *values, int left, int right, char *why, size_t size);
/* Have the first `ranks` ranks contributed, and nobody else? If not, a rank that tells. */
bool value_complete(const struct values *values, int number, int ranks, int *culprit);
/* Was it folded in the order of ranks? */
bool value_in_order(const struct values *values, int number);
/* "block 2 of rank 1's input" or "a sum of 3 ranks' block 0". */
void value_describe(const struct values *values, int number, char *text, size_t size);

/* ------------------------------------------------- the steps of all ranks */

struct actor_steps {
    struct step *steps;
    int count;
    int *stage_first; /* stages + 1 of them */
    int transfers;
};

/* The steps have been laid and counted: checks what can be told without running them and fills the rest. */
plait_status verify_rules(const struct plan *plan, struct actor_steps *actors);

/* "all-reduce of 4 ranks by ring is wrong at step 3 of rank 1, stage 2 (signal): it ..." as a failure. */
plait_status verify_wrong(const struct plan *plan, int rank, int index, const struct step *step,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
