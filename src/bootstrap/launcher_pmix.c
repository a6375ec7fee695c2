/* PMIx, which Open MPI's mpirun, PRRTE and srun --mpi=pmix speak: rank 0 puts its word, the others get it, and
 * nobody waits for anybody else. libpmix is opened at run time; what is used of it has had the same binary form
 * since PMIx 2 (source: the PMIx standard, https://pmix.github.io, and OpenPMIx's pmix_common.h). */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/launcher.h"

enum { PMIX_GLOBAL = 3, PMIX_STRING = 3, AGAIN_FIRST_MS = 2, AGAIN_LAST_MS = 50 };

struct pmix_proc {
    char space[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        char *string;
        uint64_t widest[4];
    } data;
};

typedef void (*pmix_value_callback)(int status, struct pmix_value *value, void *context);

static struct {
    int (*init)(struct pmix_proc *self, void *info, size_t count);
    int (*finalize)(const void *info, size_t count);
    int (*put)(uint8_t scope, const char *key, struct pmix_value *value);
    int (*commit)(void);
    int (*get)(const struct pmix_proc *proc, const char *key, const void *info, size_t count,
               pmix_value_callback callback, void *context);
    const char *(*error)(int status);
    const char *(*version)(void);
    struct pmix_proc self;
    pid_t pid; /* whose it is; 0: not open */
} pmix;

static const char key[] = "plait.rank.0";

/* ------------------------------------------------------------------ opening */

static bool find_functions(void *handle)
{
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        { "PMIx_Init", &pmix.init },
        { "PMIx_Finalize", &pmix.finalize },
        { "PMIx_Put", &pmix.put },
        { "PMIx_Commit", &pmix.commit },
        { "PMIx_Get_nb", &pmix.get },
        { "PMIx_Error_string", &pmix.error },
        { "PMIx_Get_version", &pmix.version },
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (function == NULL)
            return false;
        memcpy(functions[i].place, &function, sizeof function);
    }
    return true;
}

static void take_leave(void)
{
    if (pmix.pid != getpid())
        return;
    pmix.finalize(NULL, 0);
    pmix.pid = 0;
}

/* An MPI library that is started after us finds PMIx as we leave it. Open MPI 5 takes a PMIx that is up for one
 * that it has started itself, and then doesn't know its own rank; so PMIx 5, which comes with it, is left as soon
 * as all have met. Before, nobody could join the launcher again who had left it: those keep it to the end. */
static void leave_when_met(void)
{
    if (pmix.pid == getpid() && atoi(pmix.version() + strcspn(pmix.version(), "0123456789")) >= 5)
        take_leave();
}

static plait_status open_pmix(int rank)
{
    if (pmix.pid != 0)
        return PLAIT_OK;
    if (getenv("PMIX_NAMESPACE") == NULL)
        return failure(PLAIT_UNSUPPORTED, "PMIX_NAMESPACE is not set, so the launcher does not speak PMIx");
    void *handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return failure(PLAIT_UNSUPPORTED,
                       "PMIx's library can't be loaded (%.200s); install it (Debian: libpmix2)", dlerror());
    if (!find_functions(handle))
        return failure(PLAIT_UNSUPPORTED, "libpmix.so.2 lacks functions that every version of it has");
    int code = pmix.init(&pmix.self, NULL, 0);
    if (code != 0)
        return failure(PLAIT_UNSUPPORTED, "PMIx can't reach the launcher: %s (%d)", pmix.error(code), code);
    pmix.pid = getpid();
    atexit(take_leave);
    if (pmix.self.rank != (uint32_t)rank)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d is rank %u to the launcher's PMIx; were the launcher's variables changed?",
                       rank, pmix.self.rank);
    return PLAIT_OK;
}

/* ------------------------------------------------------------------- getting */

/* One question and its answer, which comes on PMIx's thread and may come when nobody waits any longer. */
struct question {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool answered;
    int status;
    char word[WORD_BYTES];
    atomic_int users;
};

static void let_go(struct question *question)
{
    if (atomic_fetch_sub(&question->users, 1) != 1)
        return;
    pthread_cond_destroy(&question->done);
    pthread_mutex_destroy(&question->lock);
    free(question);
}

static void answer(int status, struct pmix_value *value, void *context)
{
    struct question *question = context;
    pthread_mutex_lock(&question->lock);
    question->answered = true;
    question->status = status;
    if (status == 0 && value != NULL && value->type == PMIX_STRING && value->data.string != NULL)
        snprintf(question->word, WORD_BYTES, "%s", value->data.string);
    pthread_cond_signal(&question->done);
    pthread_mutex_unlock(&question->lock);
    let_go(question);
}

static struct question *new_question(void)
{
    struct question *question = calloc(1, sizeof *question);
    pthread_condattr_t clock;
    if (question == NULL)
        return NULL;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&question->lock, NULL);
    pthread_cond_init(&question->done, &clock);
    pthread_condattr_destroy(&clock);
    atomic_init(&question->users, 2);
    return question;
}

/* PMIx's code; ETIMEDOUT (positive, as none of PMIx's is) at the deadline. */
static int await(struct question *question, char word[WORD_BYTES], int64_t deadline)
{
    struct timespec until = { deadline / 1000000000, deadline % 1000000000 };
    int code = 0;
    pthread_mutex_lock(&question->lock);
    while (!question->answered && code != ETIMEDOUT)
        code = deadline == NO_DEADLINE ? pthread_cond_wait(&question->done, &question->lock)
                                       : pthread_cond_timedwait(&question->done, &question->lock, &until);
    code = question->answered ? question->status : ETIMEDOUT;
    memcpy(word, question->word, WORD_BYTES);
    pthread_mutex_unlock(&question->lock);
    return code;
}

/* 0, PMIx's code, ETIMEDOUT or ENOMEM. */
static int get_once(char word[WORD_BYTES], int64_t deadline)
{
    struct pmix_proc zero = pmix.self;
    struct question *question = new_question();
    zero.rank = 0;
    if (question == NULL)
        return ENOMEM;
    int code = pmix.get(&zero, key, NULL, 0, answer, question);
    if (code == 0)
        code = await(question, word, deadline);
    else
        let_go(question); /* it was refused, so there will be no answer */
    let_go(question);
    return code;
}

/* PMIx says at once that there is nothing yet when it knows something else of rank 0, and gives up on its own
 * after some time; so it is asked until the deadline. */
static plait_status get(int rank, int size, char word[WORD_BYTES], int64_t deadline)
{
    int64_t pause_ms = AGAIN_FIRST_MS;
    for (;;) {
        int code = get_once(word, deadline);
        if (code == 0 && word[0] != '\0')
            return PLAIT_OK;
        if (code == ENOMEM)
            return failure(PLAIT_OUT_OF_MEMORY, "no memory to ask PMIx for rank 0");
        if (deadline_passed(deadline))
            return failure(
                PLAIT_START_FAILED,
                "rank 0 did not come: rank %d of %d found no word of it with the launcher's PMIx (%s)", rank,
                size, code > 0 ? "no answer" : pmix.error(code));
        nanosleep(&(struct timespec){ 0, (long)pause_ms * 1000000 }, NULL);
        pause_ms = pause_ms * 2 < AGAIN_LAST_MS ? pause_ms * 2 : AGAIN_LAST_MS;
    }
}

static plait_status put(char word[WORD_BYTES])
{
    struct pmix_value value = { .type = PMIX_STRING, .data.string = word };
    int code = pmix.put(PMIX_GLOBAL, key, &value);
    if (code == 0)
        code = pmix.commit();
    if (code != 0)
        return failure(PLAIT_START_FAILED, "rank 0 can't give its address to the launcher's PMIx: %s (%d)",
                       pmix.error(code), code);
    return PLAIT_OK;
}

static plait_status share(int rank, int size, char word[WORD_BYTES], int64_t deadline)
{
    plait_status status = open_pmix(rank);
    if (status != PLAIT_OK)
        return status;
    return rank == 0 ? put(word) : get(rank, size, word, deadline);
}

const struct launcher_service launcher_pmix = { "PMIx", share, leave_when_met };
