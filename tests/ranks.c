#include "ranks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif

enum { EXIT_RANK_FAILED = 17 };

/* What a rank leaves for the harness; only the rank writes it. */
struct note {
    char doing[200];
    char failure[1000];
    _Atomic int failures;
};

/* Memory that all ranks and the harness share. */
struct control {
    struct note notes[RANKS_MOST];
    _Atomic int failures;             /* of all ranks */
    _Atomic uint32_t arrived, rounds; /* rank_meet() */
};

struct ranks {
    struct ranks_setup setup;
    rank_function function;
    struct control *control;
    void *shared;
    size_t mapped;
    plait_thread_group *group;
    char directory[64], file[80], port[8];
    struct rank ranks[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    pid_t pids[RANKS_MOST];
    bool running[RANKS_MOST], excused[RANKS_MOST];
    int wait_status[RANKS_MOST];
};

/* ------------------------------------------------------------------ numbers */

uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

void sleep_ms(int64_t ms)
{
    struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

bool ranks_can_fork(void)
{
#ifdef UNDER_TSAN
    return false;
#else
    return true;
#endif
}

int ranks_slowness(void)
{
#if defined(UNDER_TSAN) || defined(UNDER_ASAN)
    return 10;
#else
    return 1;
#endif
}

static uint64_t take_number(const char *name, uint64_t standard)
{
    const char *text = getenv(name);
    uint64_t value = text == NULL || *text == '\0' ? standard : strtoull(text, NULL, 10);
    unsetenv(name);
    return value;
}

const struct test_settings *test_settings(void)
{
    static struct test_settings settings;
    if (settings.scale == 0) {
        settings.seed = take_number("PLAIT_TEST_SEED", 1);
        settings.whole = take_number("PLAIT_TEST_WHOLE", 0) != 0;
        settings.huge = take_number("PLAIT_TEST_HUGE", 0) != 0;
        settings.log = take_number("PLAIT_TEST_LOG", 0) != 0;
        const char *only = getenv("PLAIT_TEST_ONLY");
        if (only != NULL)
            cmocka_set_test_filter(strdup(only));
        unsetenv("PLAIT_TEST_ONLY");
        int scale =
            (int)take_number("PLAIT_TEST_SCALE", ranks_can_fork() ? ranks_slowness() > 1 ? 20 : 100 : 10);
        settings.scale = scale < 1 ? 1 : scale;
    }
    return &settings;
}

static void drop_line(void *context, plait_log_level level, const char *line)
{
    (void)context, (void)level, (void)line;
}

/* ------------------------------------------------------------------- checks */

static struct note *note_of(const struct rank *rank)
{
    return &rank->ranks->control->notes[rank->number];
}

void rank_doing(struct rank *rank, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note_of(rank)->doing, sizeof note_of(rank)->doing, format, arguments);
    va_end(arguments);
}

bool rank_is_thread(const struct rank *rank)
{
    return rank->ranks->setup.way == RANKS_THREADS;
}

bool rank_failed(const struct rank *rank)
{
    return atomic_load(&note_of(rank)->failures) != 0;
}

/* Keeps the first failure's text; the rest are counted. */
static void record(struct rank *rank, const char *text)
{
    struct note *note = note_of(rank);
    if (atomic_load(&note->failures) == 0)
        snprintf(note->failure, sizeof note->failure, "%s", text);
    atomic_fetch_add(&note->failures, 1);
    atomic_fetch_add(&rank->ranks->control->failures, 1);
}

bool rank_check(struct rank *rank, bool good, const char *format, ...)
{
    if (good)
        return true;
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    record(rank, text);
    return false;
}

bool rank_status(struct rank *rank, plait_status got, plait_status wanted, const char *what)
{
    return rank_check(rank, got == wanted, "%s gave %s, not %s; the sentence: \"%s\"", what,
                      plait_status_name(got), plait_status_name(wanted), plait_last_error());
}

bool rank_ok(struct rank *rank, plait_status status, const char *what)
{
    return rank_status(rank, status, PLAIT_OK, what);
}

bool rank_says(struct rank *rank, const char *piece)
{
    return rank_check(rank, strstr(plait_last_error(), piece) != NULL, "the sentence lacks \"%s\": \"%s\"",
                      piece, plait_last_error());
}

bool rank_meet(struct rank *rank)
{
    struct control *control = rank->ranks->control;
    uint32_t round = atomic_load(&control->rounds);
    if (atomic_fetch_add(&control->arrived, 1) + 1 == (uint32_t)rank->size) {
        atomic_store(&control->arrived, 0);
        atomic_fetch_add(&control->rounds, 1);
        syscall(SYS_futex, &control->rounds, FUTEX_WAKE, RANKS_MOST, NULL, NULL, 0);
        return true;
    }
    while (atomic_load(&control->rounds) == round) {
        if (atomic_load(&control->failures) != 0)
            return false;
        struct timespec nap = { .tv_nsec = 20000000 };
        syscall(SYS_futex, &control->rounds, FUTEX_WAIT, round, &nap, NULL, 0);
    }
    return true;
}

/* ----------------------------------------------------------------- watchdog */

static struct ranks *watched; /* one at a time */

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(124);
}

static void put_number(int number)
{
    char digits[4] = { (char)('0' + number / 10), (char)('0' + number % 10), '\0' };
    put(number < 10 ? digits + 1 : digits);
}

/* Only what a signal handler may do. */
static void cut_short(int signal)
{
    (void)signal;
    put("\nHANG: the time is up\n");
    for (int i = 0; watched != NULL && i < watched->setup.size; i++) {
        put("  rank ");
        put_number(i);
        put(watched->running[i] ? ": " : " (not running): ");
        put(watched->control->notes[i].doing);
        put("\n");
        if (watched->control->notes[i].failures != 0) {
            put("    had failed: ");
            put(watched->control->notes[i].failure);
            put("\n");
        }
        if (watched->setup.way != RANKS_THREADS && watched->running[i])
            kill(watched->pids[i], SIGKILL);
    }
    _exit(124);
}

static void watch(struct ranks *ranks)
{
    struct sigaction action = { .sa_handler = cut_short };
    sigaction(SIGALRM, &action, NULL);
    watched = ranks;
    int limit_s = ranks->setup.limit_s != 0 ? ranks->setup.limit_s : 150;
    alarm((unsigned)(limit_s * (ranks_slowness() > 1 ? 3 : 1)));
}

/* -------------------------------------------------------------------- ranks */

plait_world_options rank_options(const struct rank *rank)
{
    const struct ranks *ranks = rank->ranks;
    plait_world_options options = {
        .struct_size = sizeof options,
        .timeout_ms = ranks->setup.timeout_ms != 0 ? ranks->setup.timeout_ms : 20000,
        .start_timeout_ms = ranks->setup.start_timeout_ms != 0 ? ranks->setup.start_timeout_ms : 20000,
        .plan = ranks->setup.plan,
    };
    if (ranks->setup.way == RANKS_ENVIRONMENT)
        return options;
    options.rank = rank->number;
    options.size = rank->size;
    if (ranks->setup.way == RANKS_THREADS)
        options.threads = ranks->group;
    else
        options.file = ranks->file;
    return options;
}

/* A rank's whole life. */
static void live(struct rank *rank)
{
    const struct ranks *ranks = rank->ranks;
    if (!ranks->setup.bare) {
        plait_world_options options = rank_options(rank);
        rank_doing(rank, "creating the world");
        if (!rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world"))
            return;
        rank->comm = plait_world_comm(rank->world);
    }
    rank_doing(rank, "running");
    ranks->function(rank);

    if (rank_failed(rank) && rank->world != NULL)
        plait_world_abort(rank->world, "a check of this test failed");
    if (rank->world != NULL) {
        char doing[200];
        snprintf(doing, sizeof doing, "%s", note_of(rank)->doing);
        rank_doing(rank, "destroying the world after: %.160s", doing);
        rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
        rank_doing(rank, "%s", doing);
    }
}

static void *live_as_thread(void *argument)
{
    live(argument);
    return NULL;
}

static void live_as_process(struct rank *rank)
{
    /* cmocka's handlers would have the rank's process run the rest of the tests. */
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS };
    for (size_t k = 0; k < LENGTH(crashes); k++)
        signal(crashes[k], SIG_DFL);
    char number[12], size[12];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rank->ranks->setup.way == RANKS_ENVIRONMENT) {
        snprintf(number, sizeof number, "%d", rank->number);
        snprintf(size, sizeof size, "%d", rank->size);
        setenv("RANK", number, 1);
        setenv("LOCAL_RANK", number, 1);
        setenv("WORLD_SIZE", size, 1);
        setenv("LOCAL_WORLD_SIZE", size, 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", rank->ranks->port, 1);
    }
    live(rank);
    _exit(rank_failed(rank) ? EXIT_RANK_FAILED : 0);
}

/* A port of loopback that nobody listens on just now. */
static void find_port(char port[8])
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    snprintf(port, 8, "%d", ntohs(address.sin_port));
}

static void prepare_meeting(struct ranks *ranks)
{
    switch (ranks->setup.way) {
    case RANKS_THREADS:
        assert_int_equal(plait_thread_group_create(ranks->setup.size, &ranks->group), PLAIT_OK);
        break;
    case RANKS_FILE:
        snprintf(ranks->directory, sizeof ranks->directory, "/tmp/plait-test-XXXXXX");
        assert_non_null(mkdtemp(ranks->directory));
        snprintf(ranks->file, sizeof ranks->file, "%s/meet", ranks->directory);
        break;
    case RANKS_ENVIRONMENT: find_port(ranks->port); break;
    }
}

static void start_thread(struct ranks *ranks, int number)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (ranks->setup.stack_size != 0)
        assert_int_equal(pthread_attr_setstacksize(&attributes, ranks->setup.stack_size), 0);
    assert_int_equal(
        pthread_create(&ranks->threads[number], &attributes, live_as_thread, &ranks->ranks[number]), 0);
    pthread_attr_destroy(&attributes);
}

static void start_rank(struct ranks *ranks, int number)
{
    struct rank *rank = &ranks->ranks[number];
    rank->ranks = ranks;
    rank->number = number;
    rank->size = ranks->setup.size;
    rank->shared = ranks->shared;
    if (number < 64 && (ranks->setup.absent >> number & 1) != 0) {
        ranks->excused[number] = true;
        return;
    }
    rank_doing(rank, "starting");
    ranks->running[number] = true;
    if (ranks->setup.way == RANKS_THREADS) {
        start_thread(ranks, number);
        return;
    }
    ranks->pids[number] = fork();
    assert_true(ranks->pids[number] >= 0);
    if (ranks->pids[number] == 0)
        live_as_process(rank);
}

struct ranks *ranks_start(const struct ranks_setup *setup, rank_function function, const void *context)
{
    assert_in_range(setup->size, 1, RANKS_MOST);
    if (setup->way != RANKS_THREADS && !ranks_can_fork())
        skip();
    fflush(NULL);
    plait_log_set_sink(test_settings()->log ? NULL : drop_line, NULL);

    struct ranks *ranks = calloc(1, sizeof *ranks);
    assert_non_null(ranks);
    ranks->setup = *setup;
    ranks->function = function;
    size_t control_size = (sizeof(struct control) + 4095) / 4096 * 4096;
    ranks->mapped = control_size + setup->shared_size;
    ranks->control = mmap(NULL, ranks->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ranks->control != MAP_FAILED);
    ranks->shared = (char *)ranks->control + control_size;
    prepare_meeting(ranks);
    watch(ranks);
    for (int i = 0; i < setup->size; i++) {
        ranks->ranks[i].context = context;
        start_rank(ranks, i);
    }
    return ranks;
}

void *ranks_shared(struct ranks *ranks)
{
    return ranks->shared;
}

pid_t ranks_pid(struct ranks *ranks, int rank)
{
    return ranks->pids[rank];
}

void ranks_signal(struct ranks *ranks, int rank, int signal)
{
    if (ranks->running[rank])
        kill(ranks->pids[rank], signal);
}

void ranks_excuse(struct ranks *ranks, int rank)
{
    ranks->excused[rank] = true;
}

int ranks_wait(struct ranks *ranks, int rank)
{
    while (ranks->running[rank]) {
        if (waitpid(ranks->pids[rank], &ranks->wait_status[rank], 0) == ranks->pids[rank])
            ranks->running[rank] = false;
        else if (errno != EINTR)
            break;
    }
    return ranks->wait_status[rank];
}

/* Adds how a process ended, where that is news, to what the rank itself recorded. */
static void judge_end(struct ranks *ranks, int number)
{
    int status = ranks_wait(ranks, number);
    struct rank *rank = &ranks->ranks[number];
    if (ranks->excused[number])
        return;
    if (WIFSIGNALED(status))
        rank_check(rank, false, "killed by signal %d (%s) while: %s", WTERMSIG(status),
                   strsignal(WTERMSIG(status)), note_of(rank)->doing);
    else if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EXIT_RANK_FAILED)
        rank_check(rank, false, "exited with %d while: %s", WEXITSTATUS(status), note_of(rank)->doing);
}

static void join(struct ranks *ranks, int number)
{
    if (ranks->setup.way == RANKS_THREADS) {
        pthread_join(ranks->threads[number], NULL);
        ranks->running[number] = false;
    } else {
        judge_end(ranks, number);
    }
}

/* Appends one line a failed rank to `text`; how many there are. */
static int gather_failures(const struct ranks *ranks, char *text, size_t room)
{
    int failed = 0;
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < ranks->setup.size; i++) {
        const struct note *note = &ranks->control->notes[i];
        if (ranks->excused[i] || atomic_load(&note->failures) == 0)
            continue;
        failed++;
        if (length < room)
            length += (size_t)snprintf(
                text + length, room - length, "\n  rank %d of %d: %s\n    while: %s (%d failures)", i,
                ranks->setup.size, note->failure, note->doing, atomic_load(&note->failures));
    }
    return failed;
}

void ranks_finish(struct ranks *ranks)
{
    static char text[16000];
    for (int i = 0; i < ranks->setup.size; i++)
        if (ranks->running[i])
            join(ranks, i);
    alarm(0);
    watched = NULL;

    int failed = gather_failures(ranks, text, sizeof text);
    plait_thread_group_destroy(ranks->group);
    if (ranks->directory[0] != '\0') {
        unlink(ranks->file);
        rmdir(ranks->directory);
    }
    munmap(ranks->control, ranks->mapped);
    free(ranks);
    if (failed != 0)
        fail_msg("%d ranks failed:%s", failed, text);
}

void ranks_run(const struct ranks_setup *setup, rank_function function, const void *context)
{
    ranks_finish(ranks_start(setup, function, context));
}

static void play(void **state)
{
    const struct scenario *scenario = *state;
    ranks_run(&scenario->setup, scenario->function, scenario->context);
}

int scenarios_run(const char *group, const struct scenario *scenarios, size_t count)
{
    test_settings();
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    char(*names)[160] = calloc(count, sizeof *names);
    if (tests == NULL || names == NULL)
        return 1;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%s (%d %s)", scenarios[i].name, scenarios[i].setup.size,
                 scenarios[i].setup.way == RANKS_THREADS ? "threads" : "processes");
        tests[i] = (struct CMUnitTest){ .name = names[i],
                                        .test_func = play,
                                        .initial_state = (void *)&scenarios[i] };
    }
    int failed = check_run(group, tests, count);
    free(tests);
    free(names);
    return failed;
}
