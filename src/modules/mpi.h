/* What libplait-mpi.so shows. */
#ifndef PLAIT_MODULES_MPI_H
#define PLAIT_MODULES_MPI_H

#include <stddef.h>
#include <stdint.h>

enum { PLAIT_MPI_WORD_BYTES = 768 };

/* Broadcasts rank 0's word over all ranks of MPI_COMM_WORLD; starts MPI if nobody has. 0, or not, with a sentence in
 * `why`. Only MPI_Init, which waits for all ranks, takes as long as it takes. */
typedef int plait_mpi_share_function(int rank, int size, char word[PLAIT_MPI_WORD_BYTES], int64_t timeout_ms,
                                     char *why, size_t why_size);

__attribute__((visibility("default"))) plait_mpi_share_function plait_mpi_share;

#endif
