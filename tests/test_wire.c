/* Frames and the log of a file store: what is written is read, and nothing else is. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/file_log.h"
#include "bootstrap/wire.h"
#include "check.h"

static const unsigned char key[JOB_KEY_BYTES] = "a key", other_key[JOB_KEY_BYTES] = "b key";

static struct claim some_claim(void)
{
    struct claim claim = {
        .rank = 3, .size = 8, .pid = 4711, .thread = 4712, .left_ms = 30000, .host = "node7"
    };
    memset(claim.nonce, 5, sizeof claim.nonce);
    return claim;
}

enum frame_kind { HELLO, CHALLENGE, OPEN, CARD, COMPLAINT, FAREWELL, KINDS };

static size_t put_frame(enum frame_kind kind, unsigned char *frame, const struct claim *claim)
{
    struct card card;
    memset(&card, 6, sizeof card);
    switch (kind) {
    case HELLO: return wire_put_hello(frame, claim);
    case CHALLENGE: return wire_put_challenge(frame, claim);
    case OPEN: return wire_put_open(frame, claim, 99);
    case CARD: return wire_put_card(frame, claim, &card);
    case COMPLAINT: return wire_put_complaint(frame, COMPLAINT_SIZE, claim);
    default: return wire_put_farewell(frame, FAREWELL_KEY);
    }
}

static bool get_frame(enum frame_kind kind, const unsigned char *frame, size_t size, struct claim *claim)
{
    struct card card;
    uint64_t generation;
    enum complaint complaint;
    enum farewell farewell;
    switch (kind) {
    case HELLO: return wire_get_hello(frame, size, claim);
    case CHALLENGE: return wire_get_challenge(frame, size, claim);
    case OPEN: return wire_get_open(frame, size, claim, &generation) && generation == 99;
    case CARD: return wire_get_card(frame, size, claim, &card) && card.bytes[CARD_BYTES - 1] == 6;
    case COMPLAINT: return wire_get_complaint(frame, size, &complaint, claim) && complaint == COMPLAINT_SIZE;
    default: return wire_get_farewell(frame, size, &farewell) && farewell == FAREWELL_KEY;
    }
}

/* Only as its own kind, whole, and of this version. */
static void frames_come_back(void **state)
{
    (void)state;
    static const size_t sizes[] = { HELLO_BYTES,      CHALLENGE_BYTES, OPEN_BYTES,
                                    CARD_FRAME_BYTES, COMPLAINT_BYTES, FAREWELL_BYTES };
    unsigned char frame[CARD_FRAME_BYTES + 1] = { 0 };
    struct claim claim = some_claim();
    for (int kind = 0; kind < KINDS; kind++) {
        struct claim back = claim;
        size_t size = put_frame((enum frame_kind)kind, frame, &claim);
        assert_int_equal(size, sizes[kind]);
        for (int as = 0; as < KINDS; as++)
            assert_int_equal(get_frame((enum frame_kind)as, frame, size, &back), as == kind);
        for (size_t cut = 0; cut < size; cut++)
            assert_false(get_frame((enum frame_kind)kind, frame, cut, &back));
        assert_false(get_frame((enum frame_kind)kind, frame, size + 1, &back));
        for (size_t i = 0; i < HEADER_BYTES; i++) {
            frame[i] ^= 1;
            assert_false(get_frame((enum frame_kind)kind, frame, size, &back));
            frame[i] ^= 1;
        }
        assert_true(get_frame((enum frame_kind)kind, frame, size, &back));
        if (kind != FAREWELL)
            assert_memory_equal(&back, &claim, sizeof claim);
    }
}

static void claims_out_of_range(void **state)
{
    (void)state;
    static const struct {
        int rank, size;
        int64_t left_ms;
        bool good;
    } claims[] = {
        { 0, 1, 0, true },
        { 0, 0, 0, false },
        { 1, 1, 0, false },
        { -1, 1, 0, false },
        { 0, -1, 0, false },
        { 0, 1, -1, false },
        { WIRE_RANKS_MAX - 1, WIRE_RANKS_MAX, 0, true },
        { 0, WIRE_RANKS_MAX + 1, 0, false },
    };
    for (size_t i = 0; i < LENGTH(claims); i++) {
        unsigned char frame[HELLO_BYTES];
        struct claim claim = some_claim(), back;
        claim.rank = claims[i].rank;
        claim.size = claims[i].size;
        claim.left_ms = claims[i].left_ms;
        wire_put_hello(frame, &claim);
        assert_int_equal(wire_get_hello(frame, sizeof frame, &back), claims[i].good);
    }
}

/* A peer's host name goes into logs and sentences. */
static void names_are_made_printable(void **state)
{
    (void)state;
    unsigned char frame[HELLO_BYTES];
    char text[CLAIM_TEXT_BYTES];
    struct claim claim = some_claim(), back;
    memset(claim.host, 'x', sizeof claim.host); /* no end */
    memcpy(claim.host, "a\n\x1b[31m\xff", 8);
    wire_put_hello(frame, &claim);
    assert_true(wire_get_hello(frame, sizeof frame, &back));
    assert_int_equal(strlen(back.host), HOST_BYTES - 1);
    assert_memory_equal(back.host, "a??[31m?xxx", 11);
    assert_non_null(strstr(claim_text(&back, text), "rank 3 (pid 4711, thread 4712, on a??[31m?xx"));
}

static void seals_hold(void **state)
{
    (void)state;
    unsigned char frame[CARD_FRAME_BYTES];
    struct claim claim = some_claim();
    struct place here = { 0 }, there = { 0 };
    size_t size = put_frame(CARD, frame, &claim);
    place_add(&here, "here", 4);
    place_add(&there, "there", 5);
    wire_seal(frame, size, key, &here);
    assert_true(wire_sealed(frame, size, key, &here));
    assert_false(wire_sealed(frame, size, other_key, &here));
    assert_false(wire_sealed(frame, size, key, &there));
    assert_false(wire_sealed(frame, size - 1, key, &here));
    assert_false(wire_sealed(frame, PROOF_BYTES, key, &here));
    assert_false(wire_sealed(frame, 0, key, &here));
    for (size_t i = 0; i < size; i++) {
        frame[i] ^= 0x40;
        assert_false(wire_sealed(frame, size, key, &here));
        frame[i] ^= 0x40;
    }
}

static void outcomes_come_back(void **state)
{
    (void)state;
    enum { SIZE = 5 };
    unsigned char nonces[SIZE][NONCE_BYTES], back_nonces[SIZE][NONCE_BYTES];
    struct card cards[SIZE], back_cards[SIZE];
    memset(nonces, 3, sizeof nonces);
    memset(cards, 4, sizeof cards);
    static const plait_status statuses[] = { PLAIT_OK, PLAIT_START_FAILED, PLAIT_OUT_OF_RESOURCES };
    for (size_t i = 0; i < LENGTH(statuses); i++) {
        struct outcome outcome = { .status = statuses[i],
                                   .size = SIZE,
                                   .generation = 77,
                                   .sentence = "why",
                                   .nonces = nonces,
                                   .cards = cards };
        struct outcome back = { .size = SIZE, .nonces = back_nonces, .cards = back_cards };
        struct outcome wrong = { .size = SIZE - 1, .nonces = back_nonces, .cards = back_cards };
        size_t size = wire_outcome_size(statuses[i], SIZE);
        unsigned char *frame = malloc(size);
        wire_put_outcome(frame, &outcome);
        assert_true(wire_get_outcome(frame, size, &back));
        assert_int_equal(back.status, statuses[i]);
        assert_int_equal(back.generation, 77);
        assert_string_equal(back.sentence, "why");
        assert_memory_equal(back_nonces, nonces, sizeof nonces);
        if (statuses[i] == PLAIT_OK)
            assert_memory_equal(back_cards, cards, sizeof cards);
        assert_false(wire_get_outcome(frame, size - 1, &back));
        /* A world of another size: its failure is heard, its table is none of ours. */
        assert_int_equal(wire_get_outcome(frame, size, &wrong), statuses[i] != PLAIT_OK);
        free(frame);
    }
}

static void missing_ranks_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *there, *text;
    } rows[] = {
        { "1110111", "rank 3" },  { "0", "rank 0" },        { "11101000", "ranks 3, 5-7" },
        { "1001", "ranks 1, 2" }, { "10001", "ranks 1-3" }, { "0101", "ranks 0, 2" },
    };
    char text[256];
    for (size_t i = 0; i < LENGTH(rows); i++) {
        bool there[16];
        int size = (int)strlen(rows[i].there);
        for (int j = 0; j < size; j++)
            there[j] = rows[i].there[j] == '1';
        missing_text(there, size, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
    bool odd[1000];
    for (int i = 0; i < 1000; i++)
        odd[i] = i % 2;
    missing_text(odd, 1000, text, sizeof text);
    assert_non_null(strstr(text, "ranks 0, 2, 4"));
    assert_non_null(strstr(text, " and 488 more"));
    missing_text(odd, 1000, text, 60);
    assert_true(strlen(text) < 60);
}

/* A log is good up to the first byte that is not as it was written. */
static void logs_are_cut_where_they_are_damaged(void **state)
{
    (void)state;
    unsigned char log[512], count[8];
    size_t first = log_record_size(1, 3), second = log_record_size(2, 8), size = first + second;
    log_put_number(count, 42);
    log_put_record(log, LOG_VALUE, "a", "xyz", 3);
    log_put_record(log + first, LOG_COUNT, "bb", count, 8);
    for (size_t cut = 0; cut <= size; cut++) {
        struct key_map map = { { NULL } };
        assert_int_equal(log_apply(log, cut, &map), cut < first ? 0 : cut < size ? first : size);
        assert_int_equal(key_map_find(&map, "a", 1) != NULL, cut >= first);
        assert_int_equal(key_map_find(&map, "bb", 2) != NULL, cut == size);
        key_map_forget(&map, NULL, NULL);
    }
    for (size_t bent = 0; bent < size; bent++) {
        struct key_map map = { { NULL } };
        log[bent] ^= 0x10;
        assert_int_equal(log_apply(log, size, &map), bent < first ? 0 : first);
        log[bent] ^= 0x10;
        key_map_forget(&map, NULL, NULL);
    }
}

static void log_headers(void **state)
{
    (void)state;
    unsigned char header[LOG_HEADER_BYTES];
    uint64_t epoch = 0;
    log_put_header(header, 5);
    for (size_t size = 0; size < sizeof header; size++)
        assert_int_equal(log_check_header(header, size, &epoch), LOG_EMPTY);
    assert_int_equal(log_check_header(header, sizeof header, &epoch), LOG_OURS);
    assert_int_equal(epoch, 5);
    header[1] = 'Q';
    assert_int_equal(log_check_header(header, sizeof header, &epoch), LOG_FOREIGN);
    assert_int_equal(log_check_header((const unsigned char *)"#!/bin/sh", 9, &epoch), LOG_FOREIGN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back),
        cmocka_unit_test(claims_out_of_range),
        cmocka_unit_test(names_are_made_printable),
        cmocka_unit_test(seals_hold),
        cmocka_unit_test(outcomes_come_back),
        cmocka_unit_test(missing_ranks_in_words),
        cmocka_unit_test(logs_are_cut_where_they_are_damaged),
        cmocka_unit_test(log_headers),
    };
    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
