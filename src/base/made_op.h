/* Operations that callers make: a sum of inputs that each rank multiplies first, or a function of theirs. */
#ifndef PLAIT_BASE_MADE_OP_H
#define PLAIT_BASE_MADE_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "plait.h"

enum { MADE_OP_NAME_BYTES = 32, FACTOR_BYTES = 16 };

struct made_op {
    _Atomic int references; /* the caller's number, and calls under way */
    plait_op number;
    uint64_t print; /* equal on ranks whose operations are alike */
    /* A function, or NULL for a sum of multiplied inputs. */
    int (*function)(void *context, const void *left, void *right, size_t count, plait_type type);
    void *context;
    bool ordered; /* not commutative: the order of ranks is kept */
    char name[MADE_OP_NAME_BYTES];
    /* For the sum: the type of the elements it is made for, and this rank's factor, in the type they are
     * summed in. */
    plait_type type;
    unsigned char factor[FACTOR_BYTES];
};

/* Gives a copy of `op` a number of its own. */
plait_status made_op_add(const struct made_op *op, plait_op *number);
/* The living operation of that number, for made_op_let_go(); NULL if there is none. Any thread. */
struct made_op *made_op_hold(plait_op number);
struct made_op *made_op_hold_again(struct made_op *op);
void made_op_let_go(struct made_op *op);
/* Ends a number; what holds its operation keeps it. False if it was not alive. */
bool made_op_end(plait_op number);

/* In the child of a fork. */
void made_op_after_fork(void);

#endif
