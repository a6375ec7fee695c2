#include "base/made_op.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"

/* A number is a slot of the table and how often that was used, so that it is not soon used again. */
enum { SLOTS = 4096, USES = (PLAIT_LAST_MADE_OP - PLAIT_FIRST_MADE_OP) / SLOTS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made_op *table[SLOTS];
static int uses[SLOTS];
static int next_slot;

plait_status made_op_add(const struct made_op *op, plait_op *number)
{
    struct made_op *made = malloc(sizeof *made);
    if (made == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for an operation");
    *made = *op;
    atomic_init(&made->references, 1);

    pthread_mutex_lock(&lock);
    int slot = next_slot, tried = 0;
    for (; tried < SLOTS && table[slot] != NULL; tried++)
        slot = (slot + 1) % SLOTS;
    if (tried < SLOTS) {
        made->number = (plait_op)(PLAIT_FIRST_MADE_OP + uses[slot] * SLOTS + slot);
        uses[slot] = (uses[slot] + 1) % USES;
        table[slot] = made;
        next_slot = (slot + 1) % SLOTS;
    }
    pthread_mutex_unlock(&lock);
    if (tried == SLOTS) {
        free(made);
        return failure(PLAIT_OUT_OF_RESOURCES, "%d operations are alive, the most there can be; destroy some",
                       SLOTS);
    }
    *number = made->number;
    return PLAIT_OK;
}

/* Under the lock. */
static struct made_op **find(plait_op number)
{
    if ((int)number < PLAIT_FIRST_MADE_OP)
        return NULL;
    struct made_op **place = &table[((int)number - PLAIT_FIRST_MADE_OP) % SLOTS];
    return *place != NULL && (*place)->number == number ? place : NULL;
}

struct made_op *made_op_hold(plait_op number)
{
    pthread_mutex_lock(&lock);
    struct made_op **place = find(number), *op = place != NULL ? *place : NULL;
    if (op != NULL)
        atomic_fetch_add(&op->references, 1);
    pthread_mutex_unlock(&lock);
    return op;
}

struct made_op *made_op_hold_again(struct made_op *op)
{
    atomic_fetch_add(&op->references, 1);
    return op;
}

void made_op_let_go(struct made_op *op)
{
    if (atomic_fetch_sub(&op->references, 1) == 1)
        free(op);
}

bool made_op_end(plait_op number)
{
    pthread_mutex_lock(&lock);
    struct made_op **place = find(number), *op = place != NULL ? *place : NULL;
    if (op != NULL)
        *place = NULL;
    pthread_mutex_unlock(&lock);
    if (op != NULL)
        made_op_let_go(op);
    return op != NULL;
}

void made_op_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}
