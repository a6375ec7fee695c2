/* An MPI library on the common loop: blocking collectives, whichever library it is built with. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

/* Libraries that sum bfloat16 have a type for it; in the others it is moved as 16 bits. */
#if defined(MPIX_BFLOAT16)
#define SUMS_BFLOAT16 true
#define BFLOAT16_TYPE MPIX_BFLOAT16
#else
#define SUMS_BFLOAT16 false
#define BFLOAT16_TYPE MPI_UINT16_T
#endif

static bool start(int *argc, char ***argv, int *rank, int *ranks)
{
    if (MPI_Init(argc, argv) != MPI_SUCCESS)
        return false;
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
    return true;
}

/* Its first line, and nothing that would need care in JSON. */
static const char *version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n\"\\")] = '\0';
    for (char *tab = strchr(text, '\t'); tab; tab = strchr(tab, '\t'))
        *tab = ' ';
    return text;
}

static bool can(enum collective collective, enum type type, enum memory memory)
{
    return memory == PRIVATE && (type == FLOAT32 || SUMS_BFLOAT16 || !call_reduces(collective));
}

static int do_call(const struct call *call)
{
    MPI_Datatype type = call->type == FLOAT32 ? MPI_FLOAT : BFLOAT16_TYPE;
    MPI_Comm comm = MPI_COMM_WORLD;
    int count = (int)call->count; /* the sizes go up to 2^31 bytes */
    switch (call->collective) {
    case ALL_REDUCE: return MPI_Allreduce(MPI_IN_PLACE, call->output, count, type, MPI_SUM, comm);
    case ALL_GATHER:
        return MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, call->output, count, type, comm);
    case BROADCAST: return MPI_Bcast(call->output, count, type, call->root, comm);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(MPI_IN_PLACE, call->output, count, type, MPI_SUM, comm);
    case ALL_TO_ALL: return MPI_Alltoall(call->input, count, type, call->output, count, type, comm);
    default: return MPI_Barrier(comm);
    }
}

static bool collective(const struct call *call)
{
    return do_call(call) == MPI_SUCCESS;
}

static void finish(void)
{
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    static const struct backend backend = {
        .name = "mpi",
        .start = start,
        .version = version,
        .can = can,
        .collective = collective,
        .finish = finish,
        .scatters_to_front = true,
    };
    return loop_run(&backend, argc, argv);
}
