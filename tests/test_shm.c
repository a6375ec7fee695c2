/* Shared memory between processes: how they meet, who is turned away, what a death looks like. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "check.h"
#include "transport/join.h"
#include "transport/transport.h"

enum { RANKS_MAX = 32, SENTENCE = 400 };

static const unsigned char job_key[32] = "a key for tests";

/* What all processes of a test share. */
struct site {
    int size;
    unsigned char blobs[RANKS_MAX][TRANSPORT_BLOB_BYTES];
    int64_t pids[RANKS_MAX];
    _Atomic int described, met, gone, pestered, logged;
    int64_t ready_ns[RANKS_MAX]; /* how long opening and connecting took */
    plait_status status[RANKS_MAX];
    char sentences[RANKS_MAX][SENTENCE];
    int wrong[RANKS_MAX]; /* a line number, or 0 */
};

struct plan {
    int size;
    uint64_t absent; /* bit r: rank r describes itself and never connects */
    uint64_t no_hub; /* likewise, and its process has ended, be it the hub's or another */
    uint64_t late;   /* likewise, and connects when the strangers are through */
    int64_t deadline_ms;
    bool has_limit;
    long fd_limit;    /* file descriptors beyond those that are open */
    uint64_t limited; /* bit r: the limit is for rank r */
    bool no_pidfd;
    /* What a rank does once it has met the others, or failed to. */
    void (*act)(struct site *site, int rank, struct endpoint *endpoint, const struct peer *peers);
};

#define NOTE(site, rank, good)                                                                               \
    do {                                                                                                     \
        if (!(good) && (site)->wrong[rank] == 0)                                                             \
            (site)->wrong[rank] = __LINE__;                                                                  \
    } while (0)

static int open_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static bool wait_for(_Atomic int *counter, int value)
{
    for (int64_t deadline = deadline_after_ms(20000); atomic_load(counter) < value; usleep(200))
        if (deadline_passed(deadline))
            return false;
    return true;
}

/* From now on this process has no pidfds, as in some sandboxes. */
static bool forbid_pidfd(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 434 /* pidfd_open */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = (unsigned short)LENGTH(code), .filter = code };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static struct site *logging_site;

static void count_line(void *context, plait_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (strstr(line, "turned away") != NULL)
        atomic_fetch_add(&logging_site->logged, 1);
}

static void be_rank(const struct plan *plan, struct site *site, int rank)
{
    struct endpoint *endpoint = NULL;
    struct peer peers[RANKS_MAX];
    struct endpoint_setup setup = { .rank = rank, .size = plan->size, .lane_size = 64 << 10 };
    if (plan->no_pidfd && !forbid_pidfd())
        _exit(77);
    logging_site = site;
    plait_log_set_sink(count_line, NULL);
    int64_t start = clock_ns();
    NOTE(site, rank, transport_shm.open(&setup, &endpoint, site->blobs[rank]) == PLAIT_OK);
    site->pids[rank] = getpid();
    atomic_fetch_add(&site->described, 1);
    if (plan->no_hub >> rank & 1)
        _exit(0);
    NOTE(site, rank, wait_for(&site->described, plan->size));
    if (plan->absent >> rank & 1) {
        poll(NULL, 0, (int)plan->deadline_ms + 1000);
        _exit(0);
    }
    if (plan->late >> rank & 1)
        NOTE(site, rank, wait_for(&site->pestered, 1));
    if (plan->no_hub) /* until it really has ended */
        NOTE(site, rank, wait_for(&site->gone, 1));
    for (int i = 0; i < plan->size; i++)
        peers[i] = (struct peer){ .rank = i, .pid = site->pids[i], .blob = site->blobs[i] };
    if (plan->has_limit && (plan->limited >> rank & 1)) {
        struct rlimit limit = { (rlim_t)(open_fds() + plan->fd_limit),
                                (rlim_t)(open_fds() + plan->fd_limit) };
        NOTE(site, rank, setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    site->status[rank] =
        transport_shm.connect(endpoint, peers, plan->size, 5, job_key, deadline_after_ms(plan->deadline_ms));
    site->ready_ns[rank] = clock_ns() - start;
    if (site->status[rank] != PLAIT_OK)
        snprintf(site->sentences[rank], SENTENCE, "%s", failure_text());
    atomic_fetch_add(&site->met, 1);
    if (plan->act != NULL)
        plan->act(site, rank, endpoint, peers);
    transport_shm.close(endpoint);
    _exit(0);
}

static struct site *start(const struct plan *plan, pid_t *children)
{
    struct site *site = mmap(NULL, sizeof *site, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(site, MAP_FAILED);
    site->size = plan->size;
    for (int i = 0; i < plan->size; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            alarm(30);
            be_rank(plan, site, i);
        }
    }
    return site;
}

static void finish(const struct plan *plan, struct site *site, const pid_t *children, int killed)
{
    for (int i = 0; i < plan->size; i++) {
        int status;
        if (children[i] <= 0)
            continue;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        if (i == killed)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip();
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("rank %d ended with wait status %d", i, status);
    }
    for (int i = 0; i < plan->size; i++)
        if (site->wrong[i] != 0 && i != killed)
            fail_msg("rank %d found something wrong in line %d: %s", i, site->wrong[i], site->sentences[i]);
}

static void assert_says(const char *sentence, const char *piece)
{
    if (strstr(sentence, piece) == NULL)
        fail_msg("'%s' does not say '%s'", sentence, piece);
}

/* ------------------------------------------------------------------ meeting */

/* Each sends its number to all in a large and in a small message. */
static void exchange_numbers(struct site *site, int rank, struct endpoint *endpoint, const struct peer *peers)
{
    enum { LARGE = 20000 };
    (void)peers;
    NOTE(site, rank, site->status[rank] == PLAIT_OK);
    if (site->status[rank] != PLAIT_OK)
        return;
    struct transfer sends[RANKS_MAX][2], recvs[RANKS_MAX][2];
    unsigned char *from = malloc(LARGE), *to = malloc(LARGE * (size_t)site->size);
    unsigned char numbers[RANKS_MAX];
    memset(from, rank, LARGE);
    for (int i = 0; i < site->size; i++) {
        for (unsigned k = 0; k < 2; k++) {
            struct message_key key = { 1, 1, k };
            void *room = k ? (void *)(to + i * LARGE) : &numbers[i];
            sends[i][k] = (struct transfer){ .peer = i, .key = key, .data = from, .size = k ? LARGE : 1 };
            recvs[i][k] = (struct transfer){ .peer = i, .key = key, .data = room, .size = k ? LARGE : 1 };
            transport_shm.send(endpoint, &sends[i][k]);
            transport_shm.recv(endpoint, &recvs[i][k]);
        }
    }
    struct bell *bell = transport_shm.bell(endpoint);
    for (bool done = false; !done;) {
        uint32_t seen = bell_lie_down(bell);
        if (!transport_shm.progress(endpoint))
            bell_sleep(bell, seen, BELL_NAP_NS);
        bell_get_up(bell);
        done = true;
        for (int i = 0; i < site->size * 2; i++)
            done &= sends[i / 2][i % 2].status != PLAIT_IN_PROGRESS &&
                    recvs[i / 2][i % 2].status != PLAIT_IN_PROGRESS;
    }
    for (int i = 0; i < site->size; i++) {
        NOTE(site, rank, sends[i][0].status == PLAIT_OK && sends[i][1].status == PLAIT_OK);
        NOTE(site, rank, recvs[i][0].status == PLAIT_OK && recvs[i][1].status == PLAIT_OK);
        NOTE(site, rank, numbers[i] == i && to[i * LARGE] == i && to[i * LARGE + LARGE - 1] == i);
    }
    free(from);
    free(to);
    transport_shm.leave(endpoint);
    atomic_fetch_add(&site->gone, 1);
    NOTE(site, rank, wait_for(&site->gone, site->size));
}

static void eight_ranks_meet(void **state)
{
    (void)state;
    struct plan plan = { .size = 8, .deadline_ms = 10000, .act = exchange_numbers };
    pid_t children[RANKS_MAX];
    struct site *site = start(&plan, children);
    finish(&plan, site, children, -1);
    int64_t slowest = 0;
    for (int i = 0; i < plan.size; i++)
        slowest = site->ready_ns[i] > slowest ? site->ready_ns[i] : slowest;
    print_message("8 ranks met in %.1f ms\n", (double)slowest / 1e6);
    assert_true(slowest < 5000000000);
    assert_int_equal(atomic_load(&site->logged), 0);
    munmap(site, sizeof *site);
}

static void twenty_ranks_meet(void **state)
{
    (void)state;
    struct plan plan = { .size = 20, .deadline_ms = 20000, .act = exchange_numbers };
    pid_t children[RANKS_MAX];
    struct site *site = start(&plan, children);
    finish(&plan, site, children, -1);
    munmap(site, sizeof *site);
}

static void sixty_four_file_descriptors_are_enough_for_eight(void **state)
{
    (void)state;
    struct plan plan = { .size = 8, .deadline_ms = 10000, .act = exchange_numbers, .limited = 255 };
    plan.has_limit = true;
    plan.fd_limit = 64 - open_fds();
    pid_t children[RANKS_MAX];
    struct site *site = start(&plan, children);
    finish(&plan, site, children, -1);
    munmap(site, sizeof *site);
}

static void too_few_file_descriptors_are_told(void **state)
{
    (void)state;
    static const long limits[] = { 0, 1, 2, 4, 7, 20 };
    for (size_t k = 0; k < 2 * LENGTH(limits); k++) {
        int limited = (int)k % 2; /* the hub, or a guest */
        struct plan plan = { .size = 6, .deadline_ms = 5000, .limited = 1u << limited };
        plan.fd_limit = limits[k / 2];
        plan.has_limit = true;
        pid_t children[RANKS_MAX];
        struct site *site = start(&plan, children);
        finish(&plan, site, children, -1);
        bool enough = plan.fd_limit >= 20;
        plait_status status = site->status[limited];
        if (status != (enough ? PLAIT_OK : PLAIT_OUT_OF_RESOURCES))
            fail_msg("limit %ld of rank %d: %s: %s", plan.fd_limit, limited, plait_status_name(status),
                     site->sentences[limited]);
        if (!enough)
            assert_says(site->sentences[limited], "ulimit -n");
        for (int i = 0; i < plan.size && limited == 0; i++)
            assert_int_equal(site->status[i], enough || i == 0 ? status : PLAIT_START_FAILED);
        munmap(site, sizeof *site);
    }
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    struct plan plan = { .size = 4, .absent = 1 << 2, .deadline_ms = 400 };
    pid_t children[RANKS_MAX];
    struct site *site = start(&plan, children);
    finish(&plan, site, children, -1);
    for (int i = 0; i < plan.size; i++) {
        if (i == 2)
            continue;
        assert_int_equal(site->status[i], PLAIT_START_FAILED);
        assert_says(site->sentences[i], "rank 2");
        assert_true(site->ready_ns[i] < 5000000000);
    }
    munmap(site, sizeof *site);
}

static void a_hub_that_does_not_come_is_named(void **state)
{
    (void)state;
    struct plan plans[] = {
        { .size = 3, .absent = 1, .deadline_ms = 300 },
        { .size = 3, .no_hub = 1, .deadline_ms = 10000 },
    };
    for (size_t k = 0; k < LENGTH(plans); k++) {
        pid_t children[RANKS_MAX];
        struct site *site = start(&plans[k], children);
        if (plans[k].no_hub) {
            waitpid(children[0], NULL, 0);
            children[0] = 0;
            atomic_store(&site->gone, 1);
        }
        finish(&plans[k], site, children, -1);
        for (int i = 1; i < 3; i++) {
            assert_int_equal(site->status[i], PLAIT_START_FAILED);
            assert_says(site->sentences[i], "rank 0 (pid");
            assert_says(site->sentences[i], k == 0 ? "did not answer" : "does not listen");
            assert_true(site->ready_ns[i] < 5000000000);
        }
        munmap(site, sizeof *site);
    }
}

/* Rank 2 gave its card and has ended, whether or not its parent has asked how. */
static void one_that_ended_before_it_came_is_not_waited_for(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct plan plan = { .size = 3, .no_hub = 1 << 2, .deadline_ms = 10000 };
        pid_t children[RANKS_MAX];
        struct site *site = start(&plan, children);
        siginfo_t info;
        waitid(P_PID, (id_t)children[2], &info, WEXITED | (asked ? 0 : WNOWAIT));
        if (asked)
            children[2] = 0;
        atomic_store(&site->gone, 1);
        finish(&plan, site, children, -1);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(site->status[i], PLAIT_START_FAILED);
            assert_says(site->sentences[i], "rank 2 (pid");
            assert_true(site->ready_ns[i] < 5000000000);
        }
        munmap(site, sizeof *site);
    }
}

/* Rank 1, or the hub, is killed while they wait for rank 3. */
static void a_death_while_meeting_is_noticed(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        struct plan plan = { .size = 4, .absent = 1 << 3, .deadline_ms = 8000 };
        pid_t children[RANKS_MAX];
        struct site *site = start(&plan, children);
        assert_true(wait_for(&site->described, 4));
        usleep(200000);
        kill(children[victim], SIGKILL);
        int64_t killed = clock_ns();
        assert_true(wait_for(&site->met, 2));
        assert_true(clock_ns() - killed < 2000000000);
        kill(children[3], SIGKILL);
        waitpid(children[3], NULL, 0);
        children[3] = 0;
        finish(&plan, site, children, victim);
        assert_int_equal(site->status[2], PLAIT_START_FAILED);
        assert_says(site->sentences[2], victim == 0 ? "rank 0 (pid" : "rank 1 (pid");
        munmap(site, sizeof *site);
    }
}

/* --------------------------------------------------------------- strangers */

static void send_packet(int fd, const void *bytes, size_t size)
{
    if (send(fd, bytes, size, MSG_NOSIGNAL) < 0)
        return; /* turned away already */
}

enum { GARBAGE = 60000 };

/* Sends one packet and hangs up. */
static bool call_with(const unsigned char name[JOIN_NAME_BYTES], const void *bytes, size_t size)
{
    int fd;
    if (join_dial(name, &fd) != 0)
        return false;
    send_packet(fd, bytes, size);
    close(fd);
    return true;
}

/* Is welcomed, since anyone may say hello, and then says something wrong. */
static bool call_politely(const unsigned char name[JOIN_NAME_BYTES], int way)
{
    struct join_hello hello = { .head = join_head_of(JOIN_HELLO), .generation = 5, .rank = 1 };
    struct join_enter enter = { .head = join_head_of(JOIN_ENTER) };
    int fds[] = { 0, 1, 2 }, fd;
    if (join_dial(name, &fd) != 0)
        return false;
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    send_packet(fd, &hello, sizeof hello);
    poll(&entry, 1, 5000);
    if (way == 0) /* does not know the key */
        join_tell(fd, &enter, sizeof enter, fds, 2);
    else if (way == 1) /* with too many file descriptors */
        join_tell(fd, &enter, sizeof enter, fds, 3);
    else /* says hello again */
        send_packet(fd, &hello, sizeof hello);
    close(fd);
    return true;
}

/* Calls the hub in every wrong way, each of them worth a log line. Returns how many, or 0. */
static int pester(const unsigned char name[JOIN_NAME_BYTES])
{
    static const size_t lengths[] = { 1, 15, 16, sizeof(struct join_hello) - 1, 200, 500, GARBAGE };
    static const struct {
        int32_t rank;
        uint64_t generation;
        uint32_t version;
    } hellos[] = { { 1, 6, 1 }, { 0, 5, 1 }, { 9, 5, 1 }, { -1, 5, 1 }, { 2, 5, 2 } };
    static unsigned char garbage[GARBAGE];
    int calls = 0;
    randombytes_buf(garbage, sizeof garbage);
    for (size_t i = 0; i < LENGTH(lengths); i++)
        calls += call_with(name, garbage, lengths[i]);
    for (size_t i = 0; i < LENGTH(hellos); i++) {
        struct join_hello hello = { .head = join_head_of(JOIN_HELLO),
                                    .generation = hellos[i].generation,
                                    .rank = hellos[i].rank };
        hello.head.version = hellos[i].version;
        calls += call_with(name, &hello, sizeof hello);
    }
    for (int way = 0; way < 3; way++)
        calls += call_politely(name, way);
    return calls;
}

static void strangers_are_turned_away(void **state)
{
    (void)state;
    struct plan plan = { .size = 3, .deadline_ms = 10000, .late = 1 << 2, .act = exchange_numbers };
    pid_t children[RANKS_MAX];
    struct site *site = start(&plan, children);
    assert_true(wait_for(&site->described, 3));
    unsigned char name[JOIN_NAME_BYTES];
    memcpy(name, site->blobs[0], sizeof name);
    int idle[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(join_dial(name, &idle[i]), 0); /* say nothing, and are in nobody's way */
    int calls = pester(name);
    atomic_store(&site->pestered, 1);
    finish(&plan, site, children, -1);
    join_close_fds(idle, 3);
    assert_int_equal(calls, 15);
    for (int i = 0; i < 3; i++)
        assert_int_equal(site->status[i], PLAIT_OK);
    assert_int_equal(atomic_load(&site->logged), calls);
    munmap(site, sizeof *site);
}

/* A rank of the same number with another key, and one that comes twice. */
static void the_wrong_key_does_not_get_in(void **state)
{
    (void)state;
    unsigned char other_key[32] = "another key";
    struct endpoint *endpoints[2];
    unsigned char blobs[2][TRANSPORT_BLOB_BYTES];
    struct peer peers[2];
    for (int i = 0; i < 2; i++) {
        struct endpoint_setup setup = { .rank = i, .size = 2, .lane_size = 64 << 10 };
        assert_int_equal(transport_shm.open(&setup, &endpoints[i], blobs[i]), PLAIT_OK);
        peers[i] = (struct peer){ .rank = i, .pid = getpid(), .blob = blobs[i] };
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* the hub */
        alarm(20);
        plait_log_set_sink(count_line, NULL);
        static struct site site;
        logging_site = &site;
        plait_status status =
            transport_shm.connect(endpoints[0], peers, 2, 5, job_key, deadline_after_ms(500));
        _exit(status == PLAIT_START_FAILED && atomic_load(&site.logged) == 1 ? 0 : 1);
    }
    plait_status status =
        transport_shm.connect(endpoints[1], peers, 2, 5, other_key, deadline_after_ms(5000));
    assert_int_equal(status, PLAIT_START_FAILED);
    assert_says(failure_text(), "job key");
    int ended;
    waitpid(child, &ended, 0);
    assert_int_equal(ended, 0);
    transport_shm.close(endpoints[0]);
    transport_shm.close(endpoints[1]);
}

/* ------------------------------------------------------------------- deaths */

enum { BECOMES_KILLED, BECOMES_EXITED, BECOMES_LEFT, BECOMES_STOPPED };

static int becomes;

/* Rank 1 comes to its end; the others watch. */
static void watch_rank_1(struct site *site, int rank, struct endpoint *endpoint, const struct peer *peers)
{
    static const enum life expected[] = { LIFE_DEAD, LIFE_DEAD, LIFE_LEFT, LIFE_HERE };
    NOTE(site, rank, site->status[rank] == PLAIT_OK);
    NOTE(site, rank, wait_for(&site->met, site->size));
    for (int i = 0; i < site->size; i++)
        NOTE(site, rank, i == 1 || transport_shm.life(endpoint, i) == LIFE_HERE);
    atomic_fetch_add(&site->gone, 1);
    if (rank == 1) {
        NOTE(site, rank, wait_for(&site->gone, site->size));
        usleep(20000);
        if (becomes == BECOMES_LEFT)
            transport_shm.leave(endpoint);
        if (becomes == BECOMES_KILLED)
            kill(getpid(), SIGKILL);
        if (becomes == BECOMES_STOPPED)
            poll(NULL, 0, 400);
        _exit(0);
    }
    NOTE(site, rank, wait_for(&site->gone, site->size));
    enum life life = LIFE_HERE;
    for (int64_t deadline = deadline_after_ms(becomes == BECOMES_STOPPED ? 200 : 3000);
         life == LIFE_HERE && !deadline_passed(deadline); usleep(500))
        life = transport_shm.life(endpoint, 1);
    NOTE(site, rank, life == expected[becomes]);
    /* The dead rank's memory can still be read and written, and what is sent there waits. */
    struct board *board = transport_shm.board(endpoint, 0, (const int[]){ 1 }, 1);
    NOTE(site, rank, board != NULL && board->staging[0][0] == 0);
    board_free(board);
    struct transfer send = { .peer = 1, .key = { 1, 1, 1 }, .data = &life, .size = sizeof life };
    transport_shm.send(endpoint, &send);
    transport_shm.progress(endpoint);
    (void)peers;
    atomic_fetch_add(&site->met, 1); /* leaving may wait for the others' looks */
    NOTE(site, rank, wait_for(&site->met, 2 * site->size - 1));
}

static void deaths_show(bool no_pidfd)
{
    static const int ends[] = { BECOMES_KILLED, BECOMES_EXITED, BECOMES_LEFT, BECOMES_STOPPED };
    for (size_t i = 0; i < LENGTH(ends); i++) {
        becomes = ends[i];
        struct plan plan = { .size = 3, .deadline_ms = 10000, .act = watch_rank_1, .no_pidfd = no_pidfd };
        pid_t children[RANKS_MAX];
        struct site *site = start(&plan, children);
        finish(&plan, site, children, 1);
        munmap(site, sizeof *site);
    }
}

static void deaths_show_on_pidfds(void **state)
{
    (void)state;
    deaths_show(false);
}

static void deaths_show_without_pidfds(void **state)
{
    (void)state;
    deaths_show(true);
}

static void be_killed(struct site *site, int rank, struct endpoint *endpoint, const struct peer *peers)
{
    (void)endpoint;
    (void)peers;
    NOTE(site, rank, wait_for(&site->met, site->size));
    kill(getpid(), SIGKILL);
}

/* Abstract names that hold `hex`, system-wide. */
static bool name_exists(const char *hex)
{
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/net/unix", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        found |= strstr(line, hex) != NULL;
    fclose(file);
    return found;
}

static void nothing_is_left_of_the_killed(void **state)
{
    (void)state;
    struct plan plan = { .size = 3, .deadline_ms = 10000, .act = be_killed };
    pid_t children[RANKS_MAX];
    struct site *site = start(&plan, children);
    for (int i = 0; i < plan.size; i++) {
        int status;
        waitpid(children[i], &status, 0);
        assert_true(WIFSIGNALED(status));
    }
    for (int i = 0; i < plan.size; i++) {
        char hex[2 * JOIN_NAME_BYTES + 1];
        sodium_bin2hex(hex, sizeof hex, site->blobs[i], JOIN_NAME_BYTES);
        assert_false(name_exists(hex));
    }
    munmap(site, sizeof *site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_ranks_meet),
        cmocka_unit_test(twenty_ranks_meet),
        cmocka_unit_test(sixty_four_file_descriptors_are_enough_for_eight),
        cmocka_unit_test(too_few_file_descriptors_are_told),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(a_hub_that_does_not_come_is_named),
        cmocka_unit_test(one_that_ended_before_it_came_is_not_waited_for),
        cmocka_unit_test(a_death_while_meeting_is_noticed),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(the_wrong_key_does_not_get_in),
        cmocka_unit_test(deaths_show_on_pidfds),
        cmocka_unit_test(deaths_show_without_pidfds),
        cmocka_unit_test(nothing_is_left_of_the_killed),
    };
    return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
