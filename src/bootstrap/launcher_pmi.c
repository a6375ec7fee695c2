/* PMI-1, the wire protocol of hydra (MPICH, Intel MPI) and of srun --mpi=pmi2: lines of "cmd=NAME key=value ..."
 * over the descriptor PMI_FD. Source: MPICH's src/pmi/simple and Slurm's src/plugins/mpi/pmi2/pmi1.c.
 *
 *   init, get_my_kvsname, put (rank 0), barrier_in, get (the others)
 *
 * What one rank puts is seen by the others after the barrier only, so all ranks have to come to it, and PMI does
 * not tell which one does not. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/launcher.h"

enum { LINE_BYTES = 2048, NAME_BYTES = 512, GOODBYE_MS = 500 };

static const char key[] = "plait-rank-0";

/* The conversation. What was said before a failure is not said again. */
static struct pmi {
    int fd;
    pid_t pid; /* whose conversation it is; 0: none yet */
    bool put, came;
    char kvs[NAME_BYTES];
    char in[LINE_BYTES];
    size_t got;
} pmi;

/* ------------------------------------------------------------------- lines */

static plait_status lost(int error, const char *command)
{
    if (error == ETIMEDOUT)
        return failure(PLAIT_START_FAILED, "the launcher did not answer \"%s\" on PMI_FD in time", command);
    if (error == 0)
        return failure(PLAIT_START_FAILED, "the launcher closed PMI_FD at \"%s\"; it is ending this job",
                       command);
    return failure_errno(PLAIT_START_FAILED, error,
                         "PMI_FD failed at \"%s\"; it must be the launcher's descriptor", command);
}

static int wait_for(short events, int64_t deadline)
{
    for (;;) {
        struct pollfd entry = { .fd = pmi.fd, .events = events };
        int64_t left = deadline_left_ms(deadline);
        int ready = poll(&entry, 1, (int)(left < 60000 ? left : 60000));
        if (ready > 0)
            return entry.revents & POLLNVAL ? EBADF : 0;
        if (ready < 0 && errno != EINTR)
            return errno;
        if (deadline_passed(deadline))
            return ETIMEDOUT;
    }
}

static plait_status say(const char *line, const char *command, int64_t deadline)
{
    size_t size = strlen(line);
    while (size > 0) {
        int error = wait_for(POLLOUT, deadline);
        if (error != 0)
            return lost(error, command);
        ssize_t put = send(pmi.fd, line, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == ENOTSOCK)
            put = write(pmi.fd, line, size);
        if (put < 0 && errno != EINTR && errno != EAGAIN)
            return lost(errno, command);
        line += put > 0 ? put : 0;
        size -= put > 0 ? (size_t)put : 0;
    }
    return PLAIT_OK;
}

/* The next line, without its end, into `line`. */
static plait_status hear(char line[LINE_BYTES], const char *command, int64_t deadline)
{
    for (;;) {
        char *end = memchr(pmi.in, '\n', pmi.got);
        if (end != NULL) {
            size_t size = (size_t)(end - pmi.in) + 1;
            memcpy(line, pmi.in, size);
            line[size - 1] = '\0';
            pmi.got -= size;
            memmove(pmi.in, pmi.in + size, pmi.got);
            return PLAIT_OK;
        }
        if (pmi.got == sizeof pmi.in)
            return failure(PLAIT_START_FAILED, "the launcher answers \"%s\" on PMI_FD with what is not PMI",
                           command);
        int error = wait_for(POLLIN, deadline);
        if (error != 0)
            return lost(error, command);
        ssize_t got = read(pmi.fd, pmi.in + pmi.got, sizeof pmi.in - pmi.got);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            return lost(got == 0 ? 0 : errno, command);
        pmi.got += got > 0 ? (size_t)got : 0;
    }
}

/* The value of `name` in a line, up to the next blank; false if it is not there or too long. */
static bool value_of(const char *line, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    for (const char *at = line; *at != '\0';) {
        size_t word = strcspn(at, " ");
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            size_t rest = word - length - 1;
            if (rest >= size)
                return false;
            memcpy(value, at + length + 1, rest);
            value[rest] = '\0';
            return true;
        }
        at += word + strspn(at + word, " ");
    }
    return false;
}

/* Says a command and hears its answer, which must be `answer` with a good return code. */
static plait_status ask(const char *line, const char *command, const char *answer, char reply[LINE_BYTES],
                        int64_t deadline)
{
    char name[64] = "", code[16] = "0";
    plait_status status = say(line, command, deadline);
    if (status == PLAIT_OK)
        status = hear(reply, command, deadline);
    if (status != PLAIT_OK)
        return status;
    value_of(reply, "cmd", name, sizeof name);
    value_of(reply, "rc", code, sizeof code);
    if (strcmp(name, answer) == 0 && strcmp(code, "0") == 0)
        return PLAIT_OK;
    return failure(PLAIT_START_FAILED, "the launcher answers PMI's \"%s\" with \"%.100s\"", command, reply);
}

/* ----------------------------------------------------------- the conversation */

/* An MPI library in this process takes leave itself, and hydra can't bear to be left twice. */
static bool mpi_was_here(void)
{
    static const char *const names[] = { "libmpi.so.12",
                                         "libmpich.so.12" }; /* as mpi4py loads it: not for all */
    int (*initialized)(int *) = NULL, yes = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Initialized");
    for (size_t i = 0; i < sizeof names / sizeof names[0] && symbol == NULL; i++) {
        void *handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        symbol = handle != NULL ? dlsym(handle, "MPI_Initialized") : NULL;
    }
    memcpy(&initialized, &symbol, sizeof symbol);
    return initialized != NULL && initialized(&yes) == 0 && yes;
}

/* At the end of the process. A launcher that hears nothing takes it for a crash and ends the other ranks. */
static void take_leave(void)
{
    char reply[LINE_BYTES];
    if (pmi.pid == getpid() && !mpi_was_here())
        ask("cmd=finalize\n", "finalize", "finalize_ack", reply, deadline_after_ms(GOODBYE_MS));
}

/* Keeps a descriptor of its own: an MPI library in this process closes the launcher's when it is done. */
static plait_status begin(int64_t deadline)
{
    const char *text = getenv("PMI_FD");
    char reply[LINE_BYTES];
    int64_t fd;
    if (pmi.pid != 0)
        return PLAIT_OK;
    if (text == NULL)
        return failure(PLAIT_UNSUPPORTED,
                       "PMI_FD is not set, by which mpiexec and srun --mpi=pmi2 speak PMI");
    if (!settings_parse_number(text, 0, 1 << 20, &fd))
        return failure(PLAIT_INVALID_SETTING, "PMI_FD is '%.32s'; mpiexec sets it to a descriptor's number",
                       text);
    pmi.fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
    if (pmi.fd < 0)
        return failure_errno(PLAIT_UNSUPPORTED, errno,
                             "PMI_FD is %d, which is not open here (a program in between may have closed it)",
                             (int)fd);
    plait_status status =
        ask("cmd=init pmi_version=1 pmi_subversion=1\n", "init", "response_to_init", reply, deadline);
    if (status == PLAIT_OK)
        status = ask("cmd=get_my_kvsname\n", "get_my_kvsname", "my_kvsname", reply, deadline);
    if (status == PLAIT_OK && !value_of(reply, "kvsname", pmi.kvs, sizeof pmi.kvs))
        status =
            failure(PLAIT_START_FAILED, "the launcher's PMI names no key-value space: \"%.100s\"", reply);
    if (status != PLAIT_OK) {
        close(pmi.fd);
        pmi.got = 0;
        return status;
    }
    pmi.pid = getpid();
    atexit(take_leave);
    return PLAIT_OK;
}

static plait_status put(const char *word, int64_t deadline)
{
    char line[LINE_BYTES], reply[LINE_BYTES];
    if (pmi.put)
        return PLAIT_OK;
    snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s value=%s\n", pmi.kvs, key, word);
    plait_status status = ask(line, "put", "put_result", reply, deadline);
    pmi.put = status == PLAIT_OK;
    return status;
}

/* Waits until all ranks have come. */
static plait_status come(int rank, int size, int64_t deadline)
{
    char line[LINE_BYTES], name[64] = "";
    plait_status status = PLAIT_OK;
    if (!pmi.came)
        status = say("cmd=barrier_in\n", "barrier_in", deadline);
    pmi.came = pmi.came || status == PLAIT_OK;
    if (status != PLAIT_OK)
        return status;
    status = hear(line, "barrier_in", deadline);
    if (status != PLAIT_OK && deadline_passed(deadline))
        return failure(
            PLAIT_START_FAILED,
            "rank %d of %d waited for all ranks to come to the launcher's barrier (PMI), and some did not; "
            "PMI does not tell which. A rank that does not create its world, or one that died?",
            rank, size);
    if (status != PLAIT_OK)
        return status;
    pmi.came = false;
    value_of(line, "cmd", name, sizeof name);
    if (strcmp(name, "barrier_out") != 0)
        return failure(PLAIT_START_FAILED, "the launcher answers PMI's barrier_in with \"%.100s\"", line);
    return PLAIT_OK;
}

static plait_status get(char word[WORD_BYTES], int64_t deadline)
{
    char line[LINE_BYTES], reply[LINE_BYTES];
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s\n", pmi.kvs, key);
    plait_status status = ask(line, "get", "get_result", reply, deadline);
    if (status == PLAIT_OK && !value_of(reply, "value", word, WORD_BYTES))
        status = failure(PLAIT_START_FAILED, "the launcher's PMI gives no word of rank 0: \"%.100s\"", reply);
    return status;
}

static plait_status share(int rank, int size, char word[WORD_BYTES], int64_t deadline)
{
    plait_status status = begin(deadline);
    if (status == PLAIT_OK && rank == 0)
        status = put(word, deadline);
    if (status == PLAIT_OK)
        status = come(rank, size, deadline);
    if (status == PLAIT_OK && rank > 0)
        status = get(word, deadline);
    return status;
}

const struct launcher_service launcher_pmi = { "PMI", share, NULL };
