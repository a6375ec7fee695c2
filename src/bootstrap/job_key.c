/* The job key: a secret that the ranks of a job share and strangers do not.
 *
 * base key    from the caller's key, hashed to 32 bytes. Without one: a public
 *             value, so that a proof shows no more than that the other side
 *             is a Plait of the same job by accident of address or store. Who may write
 *             the store or the file, or reach rank 0's port, may join.
 * world key   derived by rank 0 from the base key and a random secret that it passes
 *             on with the table. So each world has its own, and without a caller's
 *             key the trust ends where the store, the file or the network is read. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/way.h"

_Static_assert(PROOF_BYTES == crypto_auth_BYTES, "a proof is a MAC");
_Static_assert(JOB_KEY_BYTES == crypto_auth_KEYBYTES, "a job key is a MAC's key");

void job_key_prove(const unsigned char key[JOB_KEY_BYTES], const void *message, size_t size,
                   unsigned char proof[PROOF_BYTES])
{
    crypto_auth(proof, message, size, key);
}

int job_key_check(const unsigned char key[JOB_KEY_BYTES], const void *message, size_t size,
                  const unsigned char proof[PROOF_BYTES])
{
    return crypto_auth_verify(proof, message, size, key) == 0;
}

static void hash_text(crypto_generichash_state *state, const char *text)
{
    /* With its end, so that "ab" "c" is not "a" "bc". */
    if (text == NULL)
        text = "";
    crypto_generichash_update(state, (const unsigned char *)text, strlen(text) + 1);
}

void job_key_base(const struct bootstrap_options *options, unsigned char key[JOB_KEY_BYTES])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, JOB_KEY_BYTES);
    if (options->job_key != NULL) {
        hash_text(&state, "plait job key");
        crypto_generichash_update(&state, options->job_key, options->job_key_size);
    } else {
        hash_text(&state, "plait without a key");
    }
    /* Over TCP the port, the launcher's job and torchrun's run keep apart jobs that were given no key. The
     * address does not take part: ranks may well spell one address in different ways. */
    if (options->job_key == NULL && way_of(options) == &way_environment) {
        char port[16];
        snprintf(port, sizeof port, "%d", options->port);
        hash_text(&state, port);
        hash_text(&state, options->job);
        hash_text(&state, getenv("TORCHELASTIC_RUN_ID"));
        hash_text(&state, getenv("TORCHELASTIC_RESTART_COUNT"));
    }
    crypto_generichash_final(&state, key, JOB_KEY_BYTES);
}

void job_key_of_world(const unsigned char base[JOB_KEY_BYTES], const struct outcome *outcome,
                      struct bootstrap_result *result)
{
    unsigned char message[JOB_KEY_BYTES + 8];
    memcpy(message, outcome->secret, JOB_KEY_BYTES);
    for (int i = 0; i < 8; i++)
        message[JOB_KEY_BYTES + i] = (unsigned char)(outcome->generation >> (8 * i));
    job_key_prove(base, message, sizeof message, result->job_key);
    result->generation = outcome->generation;
    sodium_memzero(message, sizeof message);
}
