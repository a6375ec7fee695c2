/* What a launcher offers ranks that know no address of each other: a way for rank 0's word to reach all.
 * The word says where rank 0 will listen, and a secret; the rest goes over TCP as ever. Inside the bootstrap only. */
#ifndef PLAIT_BOOTSTRAP_LAUNCHER_H
#define PLAIT_BOOTSTRAP_LAUNCHER_H

#include "bootstrap/way.h"

/* With its end. PMI takes values of 1024 bytes at most, without blanks. */
enum { WORD_BYTES = 768 };

struct launcher_service {
    const char *name;
    /* Gives away `word` on rank 0, fills it in on the others. Once a process.
     * PLAIT_UNSUPPORTED: it is not to be had here; nothing was done. */
    plait_status (*share)(int rank, int size, char word[WORD_BYTES], int64_t deadline);
    void (*met)(void); /* all have the word and have met; or NULL */
};

extern const struct launcher_service launcher_pmix, launcher_pmi, launcher_mpi;

#endif
