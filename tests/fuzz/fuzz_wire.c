/* The frames that ranks exchange while a world starts: any bytes, as any kind. What is
 * accepted must come out the same when it is written again. */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char key[JOB_KEY_BYTES] = "a key";

static void expect(int holds)
{
    if (!holds)
        abort();
}

static void check_claim(const struct claim *claim)
{
    char text[CLAIM_TEXT_BYTES];
    expect(claim->rank >= 0 && claim->rank < claim->size && claim->size <= WIRE_RANKS_MAX &&
           claim->left_ms >= 0);
    expect(memchr(claim->host, '\0', HOST_BYTES) != NULL);
    expect(strlen(claim_text(claim, text)) < CLAIM_TEXT_BYTES);
}

static void try_claims(const uint8_t *data, size_t size)
{
    struct claim claim;
    struct card card;
    uint64_t generation;
    enum complaint complaint;
    enum farewell farewell;
    if (wire_get_hello(data, size, &claim))
        check_claim(&claim);
    if (wire_get_challenge(data, size, &claim))
        check_claim(&claim);
    if (wire_get_open(data, size, &claim, &generation))
        check_claim(&claim);
    if (wire_get_card(data, size, &claim, &card))
        check_claim(&claim);
    if (wire_get_complaint(data, size, &complaint, &claim))
        check_claim(&claim);
    wire_get_farewell(data, size, &farewell);
}

static void try_outcome(const uint8_t *data, size_t size, int ranks)
{
    unsigned char nonces[8][NONCE_BYTES];
    struct card cards[8];
    struct outcome outcome = { .size = ranks, .nonces = nonces, .cards = cards };
    if (!wire_get_outcome(data, size, &outcome))
        return;
    expect(memchr(outcome.sentence, '\0', OUTCOME_TEXT_BYTES) != NULL);
    expect(outcome.status != PLAIT_OK || size == wire_outcome_size(PLAIT_OK, ranks));
    unsigned char *again = malloc(wire_outcome_size(outcome.status, ranks));
    struct outcome back = { .size = ranks, .nonces = nonces, .cards = cards };
    wire_put_outcome(again, &outcome);
    expect(wire_get_outcome(again, wire_outcome_size(outcome.status, ranks), &back));
    expect(back.status == outcome.status && back.generation == outcome.generation);
    free(again);
}

/* The size that a frame of this kind has, so that short inputs reach its body's end. */
static size_t whole_size(int kind, int ranks, const uint8_t *body, size_t size)
{
    switch (kind) {
    case WIRE_HELLO: return HELLO_BYTES;
    case WIRE_CHALLENGE: return CHALLENGE_BYTES;
    case WIRE_CARD: return CARD_FRAME_BYTES;
    case WIRE_OUTCOME:
        return wire_outcome_size(size > 0 && body[0] == 0 ? PLAIT_OK : PLAIT_START_FAILED, ranks);
    case WIRE_OPEN: return OPEN_BYTES;
    case WIRE_COMPLAINT: return COMPLAINT_BYTES;
    default: return FAREWELL_BYTES;
    }
}

/* The first byte chooses: the rest as it is, or behind a good header of some kind and filled up. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { ROOM = 8192 };
    static unsigned char frame[ROOM];
    static const unsigned char head[HEADER_BYTES] = { 0x93, 'P',  'L',  'A',          'I',
                                                      'T',  '\r', '\n', WIRE_VERSION, 0 };
    struct header header;
    struct place place = { 0 };
    if (size == 0)
        return 0;
    int kind = data[0] % 8, ranks = data[0] / 8 % 8 + 1;
    data++;
    size--;
    wire_header(data, size, &header);
    wire_sealed(data, size, key, &place);
    if (kind != 0 && size <= ROOM - HEADER_BYTES) {
        memset(frame, 0, sizeof frame);
        memcpy(frame, head, sizeof head);
        memcpy(frame + HEADER_BYTES, data, size);
        size_t whole = whole_size(kind, ranks, data, size);
        size = size + HEADER_BYTES > whole ? size + HEADER_BYTES : whole;
        frame[10] = (unsigned char)kind;
        frame[12] = (unsigned char)(size - HEADER_BYTES);
        frame[13] = (unsigned char)((size - HEADER_BYTES) >> 8);
        data = frame;
    }
    try_claims(data, size);
    try_outcome(data, size, ranks);
    return 0;
}
