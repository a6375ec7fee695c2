/* The way through a launcher, with a stand-in for one that speaks PMI-1. Ranks are processes, for a launcher is
 * asked once a process. */
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "launcher_names.h"

enum { RANKS_MOST = 8, LINE_BYTES = 2048, LIMIT_MS = 60000 };

/* What is wrong with a launcher. */
enum manner {
    PROPER,
    TALKATIVE,  /* lines with fields that nobody knows, in pieces of a byte */
    SILENT,     /* answers nothing */
    CLOSED,     /* hangs up at the barrier */
    RUDE,       /* answers what is not PMI */
    ENDLESS,    /* ... without an end */
    REFUSING,   /* says rc=-1 to put */
    FORGETFUL,  /* has no value for get */
    OTHER_WORD, /* has another version's */
};

struct launch {
    const char *name;
    int ranks;
    enum manner manner;
    int absent;        /* a rank that never comes; -1: none */
    int worlds;        /* one after another */
    const char *sorry; /* a part of the sentence on all ranks; NULL: all is well */
    const char *root;  /* another one on rank 0; NULL: the same */
};

/* ------------------------------------------------------------------- ranks */

/* In the child. What is wrong goes to stderr. */
static int be_rank(const struct launch *launch, int rank, int fd)
{
    struct card mine, *cards = calloc((size_t)launch->ranks, sizeof *cards);
    const char *sorry = rank == 0 && launch->root != NULL ? launch->root : launch->sorry;
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv("PMI_FD", number, 1);
    for (int world = 0; world < launch->worlds; world++) {
        struct bootstrap_options options = { .rank = rank,
                                             .size = launch->ranks,
                                             .launcher = LAUNCHER_PMI,
                                             .launcher_asked = true,
                                             .deadline = deadline_after_ms(sorry != NULL ? 700 : LIMIT_MS) };
        struct bootstrap_result result;
        memset(&mine, rank + 10 * world + 1, sizeof mine);
        plait_status status = bootstrap_exchange(&options, &mine, cards, &result);
        if (sorry != NULL && (status == PLAIT_OK || strstr(plait_last_error(), sorry) == NULL)) {
            fprintf(stderr, "rank %d: '%s' lacks '%s'\n", rank, status == PLAIT_OK ? "" : plait_last_error(),
                    sorry);
            return 1;
        }
        if (sorry != NULL)
            continue;
        if (status != PLAIT_OK) {
            fprintf(stderr, "rank %d, world %d: %s\n", rank, world, plait_last_error());
            return 1;
        }
        for (int peer = 0; peer < launch->ranks; peer++)
            if (cards[peer].bytes[CARD_BYTES - 1] != peer + 10 * world + 1)
                return 1;
        if (result.toward[0] == '\0')
            return 1;
    }
    free(cards);
    return 0;
}

/* ---------------------------------------------------------------- launcher */

struct proxy {
    int fds[RANKS_MOST];
    char in[RANKS_MOST][LINE_BYTES];
    size_t got[RANKS_MOST];
    char value[LINE_BYTES];
    int came, finalized;
};

static void tell(const struct launch *launch, int fd, const char *line)
{
    size_t step = launch->manner == TALKATIVE ? 1 : strlen(line);
    for (const char *at = line; *at != '\0'; at += step)
        assert_int_equal(send(fd, at, step, MSG_NOSIGNAL), (ssize_t)step);
}

static void end_barrier(const struct launch *launch, struct proxy *proxy)
{
    for (int rank = 0; rank < launch->ranks; rank++)
        tell(launch, proxy->fds[rank], "cmd=barrier_out\n");
    proxy->came = 0;
}

static void answer_get(const struct launch *launch, const struct proxy *proxy, int fd)
{
    char line[2 * LINE_BYTES];
    if (launch->manner == FORGETFUL)
        snprintf(line, sizeof line, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    else if (launch->manner == OTHER_WORD)
        snprintf(line, sizeof line, "cmd=get_result rc=0 value=plait9/what/ever\n");
    else
        snprintf(line, sizeof line, "cmd=get_result rc=0 msg=success value=%s\n", proxy->value);
    tell(launch, fd, line);
}

/* One line from a rank. */
static void hear(const struct launch *launch, struct proxy *proxy, int rank, const char *line)
{
    int fd = proxy->fds[rank];
    const char *value = strstr(line, " value=");
    if (launch->manner == RUDE) {
        tell(launch, fd, "HTTP/1.1 400 Bad Request\n");
    } else if (launch->manner == ENDLESS) {
        char many[3 * LINE_BYTES] = "";
        memset(many, 'x', sizeof many - 1);
        tell(launch, fd, many);
    } else if (strncmp(line, "cmd=init ", 9) == 0) {
        tell(launch, fd,
             launch->manner == TALKATIVE
                 ? "cmd=response_to_init  more=1 pmi_version=1 rc=0 pmi_subversion=1\n"
                 : "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    } else if (strcmp(line, "cmd=get_my_kvsname") == 0) {
        tell(launch, fd, "cmd=my_kvsname kvsname=kvs_1_0\n");
    } else if (strncmp(line, "cmd=put kvsname=kvs_1_0 ", 24) == 0 && value != NULL) {
        snprintf(proxy->value, sizeof proxy->value, "%s", value + 7);
        tell(launch, fd,
             launch->manner == REFUSING ? "cmd=put_result rc=-1 msg=no_room\n"
                                        : "cmd=put_result rc=0 msg=success\n");
    } else if (strcmp(line, "cmd=barrier_in") == 0) {
        if (launch->manner == CLOSED)
            shutdown(fd, SHUT_RDWR);
        else if (++proxy->came == launch->ranks)
            end_barrier(launch, proxy);
    } else if (strncmp(line, "cmd=get kvsname=kvs_1_0 ", 24) == 0) {
        answer_get(launch, proxy, fd);
    } else if (strcmp(line, "cmd=finalize") == 0) {
        proxy->finalized++;
        tell(launch, fd, "cmd=finalize_ack\n");
    } else {
        fail_msg("rank %d says '%s'", rank, line);
    }
}

static void read_from(const struct launch *launch, struct proxy *proxy, int rank)
{
    char *in = proxy->in[rank], *end;
    ssize_t got = recv(proxy->fds[rank], in + proxy->got[rank], LINE_BYTES - proxy->got[rank] - 1, 0);
    if (got <= 0) {
        close(proxy->fds[rank]);
        proxy->fds[rank] = -1;
        return;
    }
    proxy->got[rank] += (size_t)got;
    while ((end = memchr(in, '\n', proxy->got[rank])) != NULL) {
        *end = '\0';
        if (launch->manner != SILENT)
            hear(launch, proxy, rank, in);
        proxy->got[rank] -= (size_t)(end - in) + 1;
        memmove(in, end + 1, proxy->got[rank]);
    }
}

/* Serves until all ranks have hung up. */
static void serve(const struct launch *launch, struct proxy *proxy)
{
    int64_t deadline = deadline_after_ms(2 * LIMIT_MS);
    for (;;) {
        struct pollfd polls[RANKS_MOST];
        int open = 0;
        for (int rank = 0; rank < launch->ranks; rank++) {
            polls[rank] = (struct pollfd){ .fd = proxy->fds[rank], .events = POLLIN };
            open += proxy->fds[rank] >= 0;
        }
        if (open == 0)
            return;
        assert_false(deadline_passed(deadline));
        poll(polls, (nfds_t)launch->ranks, 1000);
        for (int rank = 0; rank < launch->ranks; rank++)
            if (polls[rank].fd >= 0 && polls[rank].revents != 0)
                read_from(launch, proxy, rank);
    }
}

static void ranks_meet(void **state)
{
    const struct launch *launch = *state;
    struct proxy proxy = { .came = 0 };
    pid_t pids[RANKS_MOST];
    int alive = 0;
    for (int rank = 0; rank < launch->ranks; rank++) {
        int pair[2], status = rank == launch->absent;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        pids[rank] = fork();
        if (pids[rank] == 0) {
            for (int peer = 0; peer < rank; peer++)
                close(proxy.fds[peer]);
            close(pair[0]);
            exit(status ? 0 : be_rank(launch, rank, pair[1]));
        }
        close(pair[1]);
        proxy.fds[rank] = pair[0];
        alive += rank != launch->absent;
    }
    serve(launch, &proxy);
    for (int rank = 0; rank < launch->ranks; rank++) {
        int status = 1;
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    if (launch->sorry == NULL)
        assert_int_equal(proxy.finalized, alive); /* a launcher takes all else for crashes */
}

static const struct launch launches[] = {
    { "two ranks", 2, PROPER, -1, 1, NULL, NULL },
    { "many ranks, and a second world", 8, PROPER, -1, 2, NULL, NULL },
    { "a launcher that says more", 3, TALKATIVE, -1, 1, NULL, NULL },
    { "a launcher that says nothing", 2, SILENT, -1, 1, "did not answer \"init\" on PMI_FD in time", NULL },
    { "a launcher that hangs up", 2, CLOSED, -1, 1, "the launcher closed PMI_FD at \"barrier_in\"", NULL },
    { "a launcher that is none", 2, RUDE, -1, 1, "PMI's \"init\" with \"HTTP/1.1 400 Bad Request\"", NULL },
    { "a launcher without line ends", 2, ENDLESS, -1, 1, "with what is not PMI", NULL },
    { "a launcher without room", 2, REFUSING, -1, 1, "waited for all ranks",
      "PMI's \"put\" with \"cmd=put_result rc=-1" },
    { "a launcher that forgets", 2, FORGETFUL, -1, 1, "PMI's \"get\" with", "rank 1 of 2 did not come" },
    { "another version's word", 2, OTHER_WORD, -1, 1, "use one version on all ranks",
      "rank 1 of 2 did not come" },
    { "a rank that never comes", 3, PROPER, 2, 1, "waited for all ranks to come to the launcher's barrier",
      NULL },
    { "rank 0 never comes", 3, PROPER, 0, 1, "some did not; PMI does not tell which", NULL },
};

/* ----------------------------------------------------- launchers that are not there */

/* One rank that a launcher started and can't serve: the sentence it fails with. */
static void fails_with(const struct bootstrap_options *given, const char *fd, const char *sentence)
{
    pid_t pid = fork();
    int status = 1;
    if (pid == 0) {
        struct bootstrap_options options = *given;
        struct card mine = { { 0 } }, cards[2];
        struct bootstrap_result result;
        options.rank = 1;
        options.size = 2;
        options.deadline = deadline_after_ms(500);
        if (fd != NULL)
            setenv("PMI_FD", fd, 1);
        plait_status code = bootstrap_exchange(&options, &mine, cards, &result);
        if (code == PLAIT_OK || strstr(plait_last_error(), sentence) == NULL) {
            fprintf(stderr, "'%s' lacks '%s'\n", code == PLAIT_OK ? "" : plait_last_error(), sentence);
            exit(1);
        }
        exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_launcher_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct bootstrap_options pmi = { .launcher = LAUNCHER_PMI, .launcher_asked = true },
                             pmix = { .launcher = LAUNCHER_PMIX, .launcher_asked = true };
    fails_with(&pmi, NULL, "PMI_FD is not set");
    fails_with(&pmi, NULL, "or set MASTER_ADDR to rank 0's host and MASTER_PORT");
    fails_with(&pmi, "99", "PMI_FD is 99, which is not open here");
    fails_with(&pmi, "none", "PMI_FD is 'none'");
    fails_with(&pmix, NULL, "PMIX_NAMESPACE is not set");
}

/* What cannot be had is done without where the launcher's variables say how. */
static void ranks_of_one_host_need_no_service(void **state)
{
    (void)state;
    pid_t pids[3];
    for (int rank = 0; rank < 3; rank++) {
        pids[rank] = fork();
        if (pids[rank] != 0)
            continue;
        struct bootstrap_options options = { .rank = rank,
                                             .size = 3,
                                             .launcher = LAUNCHER_PMIX,
                                             .address = "127.0.0.1",
                                             .job = "a job",
                                             .port = 10240 + (int)getppid() % 1300 * 16,
                                             .deadline = deadline_after_ms(LIMIT_MS) };
        struct card mine = { { 0 } }, cards[3];
        struct bootstrap_result result;
        plait_status status = bootstrap_exchange(&options, &mine, cards, &result);
        if (status != PLAIT_OK)
            fprintf(stderr, "rank %d: %s\n", rank, plait_last_error());
        exit(status != PLAIT_OK);
    }
    for (int rank = 0; rank < 3; rank++) {
        int status = 1;
        waitpid(pids[rank], &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(launches) + 2];
    launcher_clear();
    for (size_t i = 0; i < LENGTH(launches); i++)
        tests[i] = (struct CMUnitTest){ .name = launches[i].name,
                                        .test_func = ranks_meet,
                                        .initial_state = (void *)(uintptr_t)&launches[i] };
    tests[LENGTH(launches)] = (struct CMUnitTest)cmocka_unit_test(a_launcher_that_is_not_there_is_named);
    tests[LENGTH(launches) + 1] = (struct CMUnitTest)cmocka_unit_test(ranks_of_one_host_need_no_service);
    return check_run("launcher", tests, LENGTH(tests));
}
