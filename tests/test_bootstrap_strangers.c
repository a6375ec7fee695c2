/* Whoever else may be on the line: scans, garbage, other protocols and versions, silence, forged
 * proofs; and strangers that listen where rank 0 should be. The world comes together all the same. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/wire.h"
#include "bootstrap_ranks.h"
#include "check.h"

static int port;

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

/* A connection to rank 0, once it listens. */
static int reach(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        close(fd);
        pause_ms(2);
    }
}

static void say(int fd, const void *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

/* Reads until the other side hangs up; returns how much came. */
static size_t hear_all(int fd, unsigned char *bytes, size_t room)
{
    size_t size = 0;
    ssize_t got;
    while (size < room && (got = recv(fd, bytes + size, room - size, 0)) > 0)
        size += (size_t)got;
    return size;
}

static struct claim claim_of(int rank, int size)
{
    struct claim claim = { .rank = rank, .size = size, .pid = 99, .left_ms = 5000, .host = "elsewhere" };
    memset(claim.nonce, 7, sizeof claim.nonce);
    return claim;
}

static void scan(void)
{
    close(reach());
}

static void garbage(void)
{
    unsigned char bytes[600];
    int fd = reach();
    memset(bytes, 0xa5, sizeof bytes);
    say(fd, bytes, sizeof bytes);
    hear_all(fd, bytes, sizeof bytes);
    close(fd);
}

static void http(void)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    unsigned char answer[64];
    int fd = reach();
    say(fd, request, sizeof request - 1);
    hear_all(fd, answer, sizeof answer);
    close(fd);
}

static void one_byte(void)
{
    int fd = reach();
    say(fd, "\x93", 1);
    close(fd);
}

static void half_a_hello(void)
{
    unsigned char hello[HELLO_BYTES];
    struct claim claim = claim_of(1, 2);
    int fd = reach();
    wire_put_hello(hello, &claim);
    say(fd, hello, HELLO_BYTES / 2);
    close(fd);
}

/* Byte by byte, which is fine, and then nothing more. */
static void another_version(void)
{
    unsigned char hello[HELLO_BYTES], answer[256];
    struct claim claim = claim_of(1, 2);
    struct header header;
    enum farewell reason;
    int fd = reach();
    wire_put_hello(hello, &claim);
    hello[8] = 9; /* the version's low byte */
    for (size_t i = 0; i < HEADER_BYTES; i++)
        say(fd, hello + i, 1);
    size_t size = hear_all(fd, answer, sizeof answer);
    assert_int_equal(size, FAREWELL_BYTES);
    assert_int_equal(wire_header(answer, size, &header), HEADER_GOOD);
    assert_int_equal(header.version, WIRE_VERSION);
    assert_true(wire_get_farewell(answer, size, &reason));
    assert_int_equal(reason, FAREWELL_VERSION);
    close(fd);
}

static void hello_with(int rank, int size)
{
    unsigned char hello[HELLO_BYTES], answer[256];
    struct claim claim = claim_of(rank, size);
    int fd = reach();
    wire_put_hello(hello, &claim);
    say(fd, hello, HELLO_BYTES);
    assert_int_equal(hear_all(fd, answer, sizeof answer), 0); /* not even a challenge */
    close(fd);
}

static void rank_out_of_range(void)
{
    hello_with(2, 2);
}

static void negative_rank(void)
{
    hello_with(-1, 2);
}

static void no_size(void)
{
    hello_with(0, 0);
}

static void too_long_a_body(void)
{
    unsigned char hello[HELLO_BYTES], answer[256];
    struct claim claim = claim_of(1, 2);
    int fd = reach();
    wire_put_hello(hello, &claim);
    memset(hello + 12, 0xff, 4); /* the body's size */
    say(fd, hello, HEADER_BYTES);
    assert_int_equal(hear_all(fd, answer, sizeof answer), 0);
    close(fd);
}

/* Takes the challenge and answers it without the key: claims rank 1, which is on its way. */
static void forged_proof(void)
{
    unsigned char hello[HELLO_BYTES], challenge[CHALLENGE_BYTES], frame[CARD_FRAME_BYTES], answer[16];
    struct claim claim = claim_of(1, 2);
    struct card card = { { 1 } };
    int fd = reach();
    wire_put_hello(hello, &claim);
    say(fd, hello, HELLO_BYTES);
    assert_int_equal(hear_all(fd, challenge, sizeof challenge), CHALLENGE_BYTES);
    wire_put_card(frame, &claim, &card);
    memset(frame + CARD_FRAME_BYTES - PROOF_BYTES, 3, PROOF_BYTES);
    say(fd, frame, sizeof frame);
    assert_int_equal(hear_all(fd, answer, sizeof answer), 0);
    close(fd);
}

/* Sends rank 0's own proof back to it. */
static void reflected_proof(void)
{
    unsigned char hello[HELLO_BYTES], challenge[CHALLENGE_BYTES], answer[16];
    struct claim claim = claim_of(1, 2);
    int fd = reach();
    wire_put_hello(hello, &claim);
    say(fd, hello, HELLO_BYTES);
    assert_int_equal(hear_all(fd, challenge, sizeof challenge), CHALLENGE_BYTES);
    say(fd, challenge, sizeof challenge);
    assert_int_equal(hear_all(fd, answer, sizeof answer), 0);
    close(fd);
}

static void silence(void)
{
    unsigned char answer[16];
    int fd = reach();
    int64_t start = clock_ns();
    assert_int_equal(hear_all(fd, answer, sizeof answer), 0); /* rank 0 hangs up */
    assert_in_range((clock_ns() - start) / 1000000, 500, 4000);
    close(fd);
}

static const struct stranger {
    const char *name;
    void (*call)(void);
    const char *line; /* in the one log line */
    int wait_ms;      /* rank 1 starts so late */
} strangers[] = {
    { "a scan", scan, "it connected and hung up without a word", 150 },
    { "garbage", garbage, "it does not speak Plait; it said \"\\xa5\\xa5", 150 },
    { "http", http, "it does not speak Plait; it said \"GET / HTTP", 150 },
    { "one byte", one_byte, "it hung up in the handshake", 150 },
    { "half a hello", half_a_hello, "it hung up in the handshake", 150 },
    { "another version", another_version, "it speaks wire version 9, rank 0 speaks 1", 150 },
    { "rank out of range", rank_out_of_range, "rank or size out of range", 150 },
    { "negative rank", negative_rank, "rank or size out of range", 150 },
    { "no size", no_size, "rank or size out of range", 150 },
    { "too long a body", too_long_a_body, "has no place in the handshake", 150 },
    { "a forged proof", forged_proof, "it failed the proof of the job key", 150 },
    { "a reflected proof", reflected_proof, "has no place in the handshake", 150 },
    { "silence", silence, "it did not finish the handshake within", 2500 },
};

static void *call_stranger(void *argument)
{
    ((const struct stranger *)argument)->call();
    return NULL;
}

static void one_line_and_on_it_goes(void **state)
{
    const struct stranger *stranger = *state;
    struct bootstrap_options options = {
        .address = "127.0.0.1", .port = port = free_port(), .job_key = "k", .job_key_size = 1
    };
    static struct start starts[START_RANKS_MAX];
    pthread_t thread;
    int before = open_descriptors();
    log_capture();
    starts_fill(starts, 2, options, 10000);
    starts[1].delay_ms = stranger->wait_ms;
    pthread_create(&thread, NULL, call_stranger, (void *)(uintptr_t)stranger);
    starts_run(starts, 2);
    pthread_join(thread, NULL);
    starts_check(starts, 2);
    assert_int_equal(log_count("rank 0 turned 127.0.0.1:"), 1);
    assert_int_equal(log_count(stranger->line), 1);
    assert_int_equal(log_count(NULL), 1);
    log_release();
    starts_end(starts, 2);
    assert_int_equal(open_descriptors(), before);
}

/* More silent connections than rank 0 keeps: each makes room for the next, and for the ranks. */
static atomic_int all_called;

static void *call_many(void *argument)
{
    int *fds = argument;
    for (int i = 0; i < 300; i++)
        fds[i] = reach();
    atomic_store(&all_called, 1);
    return NULL;
}

static void many_silent_ones(void **state)
{
    (void)state;
    static int fds[300];
    static struct start starts[START_RANKS_MAX];
    struct bootstrap_options options = { .address = "127.0.0.1", .port = port = free_port() };
    pthread_t thread;
    log_capture();
    starts_fill(starts, 8, options, 10000);
    for (int i = 1; i < 8; i++)
        starts[i].gate = &all_called;
    pthread_create(&thread, NULL, call_many, fds);
    starts_run(starts, 8);
    starts_check(starts, 8);
    for (int i = 1; i < 8; i++)
        assert_true(starts[i].seconds < 2.0);
    pthread_join(thread, NULL);
    /* The last 128 may still have had their places when the world was complete. */
    assert_in_range(log_count("its place was needed") + log_count("did not finish"), 1, 200);
    assert_in_range(log_count(NULL), 1, 201);
    for (int i = 0; i < 300; i++)
        close(fds[i]);
    log_release();
    starts_end(starts, 8);
}

/* ------------------------------------------------ strangers that listen */

static atomic_int listening, visitors;

enum manner { MUTE, HANGS_UP, TALKS, ECHOES };

struct squatter {
    int fd;
    enum manner manner;
    pthread_t thread;
};

static void *squat(void *argument)
{
    struct squatter *squatter = argument;
    int guests[256], count = 0;
    char bytes[512];
    while (atomic_load(&listening)) {
        struct pollfd entry = { .fd = squatter->fd, .events = POLLIN };
        if (poll(&entry, 1, 10) <= 0 || count == 256)
            continue;
        int fd = accept4(squatter->fd, NULL, NULL, SOCK_CLOEXEC);
        ssize_t got = 0;
        atomic_fetch_add(&visitors, 1);
        if (squatter->manner == TALKS || squatter->manner == ECHOES)
            got = recv(fd, bytes, sizeof bytes, 0);
        if (squatter->manner == TALKS)
            send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
        if (squatter->manner == ECHOES && got > 0)
            send(fd, bytes, (size_t)got, MSG_NOSIGNAL);
        if (squatter->manner == HANGS_UP)
            close(fd);
        else
            guests[count++] = fd;
    }
    while (count > 0)
        close(guests[--count]);
    close(squatter->fd);
    return NULL;
}

static void squat_at(struct squatter *squatter, int at, enum manner manner)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)at),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int on = 1;
    squatter->manner = manner;
    squatter->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(squatter->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(squatter->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(squatter->fd, 64), 0);
    atomic_store(&listening, 1);
    pthread_create(&squatter->thread, NULL, squat, squatter);
}

static const struct squat_case {
    const char *name;
    enum manner manner;
    int taken;     /* how many of the first ports */
    bool agent;    /* as under torchrun */
    double within; /* seconds */
} squats[] = {
    { "torchrun's store has the port", MUTE, 1, true, 1.0 },
    { "a mute server has the port", MUTE, 1, false, 3.0 },
    { "one that hangs up has it", HANGS_UP, 1, false, 2.0 },
    { "one that talks has it", TALKS, 1, false, 2.0 },
    { "one that echoes has it", ECHOES, 1, false, 2.0 },
    { "five ports are taken", HANGS_UP, 5, false, 2.0 },
};

static void next_port_is_found(void **state)
{
    const struct squat_case *squat_case = *state;
    static struct start starts[START_RANKS_MAX];
    struct squatter squatters[16];
    struct bootstrap_options options = { .address = "127.0.0.1", .port = free_port() };
    int before = open_descriptors();
    atomic_store(&visitors, 0);
    for (int i = 0; i < squat_case->taken; i++)
        squat_at(&squatters[i], options.port + i, squat_case->manner);
    if (squat_case->agent)
        setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    log_capture();
    starts_fill(starts, 8, options, 10000);
    starts[0].delay_ms = 20;
    starts_run(starts, 8);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    starts_check(starts, 8);
    for (int i = 0; i < 8; i++)
        assert_true(starts[i].seconds <= squat_case->within);
    assert_int_equal(log_count(NULL), 0);
    log_release();
    if (squat_case->agent)
        assert_int_equal(atomic_load(&visitors), 0);
    atomic_store(&listening, 0);
    for (int i = 0; i < squat_case->taken; i++)
        pthread_join(squatters[i].thread, NULL);
    starts_end(starts, 8);
    assert_int_equal(open_descriptors(), before);
}

static void all_ports_are_taken(void **state)
{
    (void)state;
    static struct start starts[START_RANKS_MAX];
    struct squatter squatters[16];
    struct bootstrap_options options = { .address = "127.0.0.1", .port = free_port() };
    for (int i = 0; i < 16; i++)
        squat_at(&squatters[i], options.port + i, i % 2 ? HANGS_UP : TALKS);
    starts_fill(starts, 2, options, 1000); /* time to ask all of them */
    starts_run(starts, 2);
    assert_int_equal(starts[0].status, PLAIT_OUT_OF_RESOURCES);
    assert_non_null(strstr(starts[0].sentence, "can't listen at \"127.0.0.1\", ports"));
    assert_int_equal(starts[1].status, PLAIT_START_FAILED);
    assert_non_null(strstr(starts[1].sentence, "answers, but not as Plait does"));
    assert_non_null(strstr(starts[1].sentence, "hung up in the handshake"));
    atomic_store(&listening, 0);
    for (int i = 0; i < 16; i++)
        pthread_join(squatters[i].thread, NULL);
    starts_end(starts, 2);
}

static void a_name_without_address(void **state)
{
    (void)state;
    static struct start starts[START_RANKS_MAX];
    struct bootstrap_options options = { .address = "no-such-host.invalid", .port = free_port() };
    starts_fill(starts, 2, options, 300);
    starts[0].options.rank = 1;
    starts_run(starts, 1);
    assert_int_equal(starts[0].status, PLAIT_START_FAILED);
    assert_non_null(strstr(starts[0].sentence, "the name \"no-such-host.invalid\" has no address"));
    starts_end(starts, 2);
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(strangers) + LENGTH(squats) + 3];
    size_t count = 0;
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    if (sodium_init() < 0)
        return 1;
    for (size_t i = 0; i < LENGTH(strangers); i++)
        tests[count++] = (struct CMUnitTest){ .name = strangers[i].name,
                                              .test_func = one_line_and_on_it_goes,
                                              .initial_state = (void *)(uintptr_t)&strangers[i] };
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(many_silent_ones);
    for (size_t i = 0; i < LENGTH(squats); i++)
        tests[count++] = (struct CMUnitTest){ .name = squats[i].name,
                                              .test_func = next_port_is_found,
                                              .initial_state = (void *)(uintptr_t)&squats[i] };
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(all_ports_are_taken);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_name_without_address);
    return check_run("strangers", tests, count);
}
