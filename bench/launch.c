#include "launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 2000, EXIT_NO_EXEC = 127 };

struct launch {
    pid_t *pids; /* 0 once reaped */
    bool *ended; /* in the present reap() */
    int *statuses;
    int ranks, running;
    int signal;           /* the first one handed on; 0: none */
    bool failed;          /* a rank ended badly, or could not be started */
    int status;           /* this program's, then */
    int64_t next_step_ms; /* when the others get next_signal; 0: never */
    int next_signal;
    sigset_t watched, before;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A port that is free now: bound, looked at, let go. 0 if there is none. */
static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int port = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&address, length) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* Ranks that others on this host can't pass for: a key of this run, unless there is one already. */
static void set_job_key(void)
{
    unsigned char bytes[16];
    char text[2 * sizeof bytes + 1];
    if (getenv("PLAIT_JOB_KEY") || getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    setenv("PLAIT_JOB_KEY", text, 1);
}

static bool set_environment(int ranks)
{
    int port = free_port();
    if (port == 0) {
        fprintf(stderr, "plait-perf: no free port on 127.0.0.1: %s\n", strerror(errno));
        return false;
    }
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", port);
    set_number("WORLD_SIZE", ranks);
    set_number("LOCAL_WORLD_SIZE", ranks);
    set_job_key();
    return true;
}

/* In the child. Never returns. */
static void become_rank(const struct launch *launch, int rank, pid_t parent, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_NO_EXEC);
    sigprocmask(SIG_SETMASK, &launch->before, NULL);
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    execv("/proc/self/exe", argv);
    fprintf(stderr, "plait-perf: rank %d: can't run /proc/self/exe: %s\n", rank, strerror(errno));
    _exit(EXIT_NO_EXEC);
}

static void signal_all(const struct launch *launch, int signal)
{
    for (int rank = 0; rank < launch->ranks; rank++)
        if (launch->pids[rank] > 0)
            kill(launch->pids[rank], signal);
}

static void press_later(struct launch *launch, int signal)
{
    launch->next_signal = signal;
    launch->next_step_ms = now_ms() + GRACE_MS;
}

static void start_all(struct launch *launch, char **argv)
{
    pid_t parent = getpid();
    for (int rank = 0; rank < launch->ranks; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            become_rank(launch, rank, parent, argv);
        if (pid < 0) {
            fprintf(stderr, "plait-perf: can't start rank %d of %d: %s\n", rank, launch->ranks,
                    strerror(errno));
            launch->failed = true;
            signal_all(launch, SIGTERM);
            press_later(launch, SIGKILL);
            return;
        }
        launch->pids[rank] = pid;
        launch->running++;
    }
}

/* The first failure is news; those after it are its consequences. */
static void note_end(struct launch *launch, int rank, int status)
{
    pid_t pid = launch->pids[rank];
    launch->pids[rank] = 0;
    launch->running--;
    if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) || launch->failed)
        return;
    launch->failed = true;
    if (WIFEXITED(status) && WEXITSTATUS(status) != EXIT_NO_EXEC)
        launch->status = WEXITSTATUS(status);
    if (launch->signal)
        return;
    if (WIFSIGNALED(status))
        fprintf(stderr, "plait-perf: rank %d (pid %d) was ended by signal %d (%s)%s\n", rank, (int)pid,
                WTERMSIG(status), strsignal(WTERMSIG(status)),
                launch->running ? "; ending the other ranks" : "");
    else
        fprintf(stderr, "plait-perf: rank %d (pid %d) exited with status %d%s\n", rank, (int)pid,
                WEXITSTATUS(status), launch->running ? "; ending the other ranks" : "");
    press_later(launch, SIGTERM);
}

/* Of those that ended since the last look, the killed come first: the others may have failed for that. */
static void reap(struct launch *launch)
{
    for (int rank = 0; rank < launch->ranks; rank++) {
        launch->ended[rank] = launch->pids[rank] > 0 && waitpid(launch->pids[rank], &launch->statuses[rank],
                                                                WNOHANG) == launch->pids[rank];
        if (launch->ended[rank] && WIFSIGNALED(launch->statuses[rank]))
            note_end(launch, rank, launch->statuses[rank]);
    }
    for (int rank = 0; rank < launch->ranks; rank++)
        if (launch->ended[rank] && !WIFSIGNALED(launch->statuses[rank]))
            note_end(launch, rank, launch->statuses[rank]);
}

static void press(struct launch *launch)
{
    if (launch->next_step_ms == 0 || now_ms() < launch->next_step_ms)
        return;
    signal_all(launch, launch->next_signal);
    press_later(launch, SIGKILL);
}

static void wait_all(struct launch *launch)
{
    const struct timespec tick = { .tv_nsec = 100000000 };
    reap(launch);
    while (launch->running > 0) {
        int signal = sigtimedwait(&launch->watched, NULL, &tick);
        if (signal > 0 && signal != SIGCHLD) {
            launch->signal = launch->signal ? launch->signal : signal;
            signal_all(launch, signal);
            press_later(launch, SIGKILL);
        }
        reap(launch);
        press(launch);
    }
}

static int result(const struct launch *launch)
{
    if (launch->signal) {
        fprintf(stderr, "plait-perf: ended by signal %d (%s), and all ranks with it\n", launch->signal,
                strsignal(launch->signal));
        return 128 + launch->signal;
    }
    return launch->failed ? launch->status : EXIT_SUCCESS;
}

int launch_ranks(int ranks, int argc, char **argv)
{
    struct launch launch = { .ranks = ranks, .status = EXIT_FAILURE };
    int status = EXIT_FAILURE;
    char **arguments = calloc((size_t)argc + 2, sizeof *arguments);
    launch.pids = calloc((size_t)ranks, sizeof *launch.pids);
    launch.ended = calloc((size_t)ranks, sizeof *launch.ended);
    launch.statuses = calloc((size_t)ranks, sizeof *launch.statuses);
    if (!arguments || !launch.pids || !launch.ended || !launch.statuses) {
        fprintf(stderr, "plait-perf: out of memory\n");
        goto cleanup;
    }
    arguments[0] = argv[0];
    arguments[1] = (char *)"--launched";
    memcpy(arguments + 2, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    if (!set_environment(ranks))
        goto cleanup;

    sigemptyset(&launch.watched);
    const int watched[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
        sigaddset(&launch.watched, watched[i]);
    sigprocmask(SIG_BLOCK, &launch.watched, &launch.before);
    start_all(&launch, arguments);
    wait_all(&launch);
    status = result(&launch);
    sigprocmask(SIG_SETMASK, &launch.before, NULL);

cleanup:
    free(launch.pids);
    free(launch.ended);
    free(launch.statuses);
    free(arguments);
    return status;
}
