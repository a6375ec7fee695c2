/* libplait-mpi.so: rank 0's word through MPI, for launchers that offer ranks nothing else. Opened by
 * src/bootstrap/launcher_mpi.c, so that libplait.so itself never needs MPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "modules/mpi.h"

/* MPI that we started is ended with the process; it can't be started twice. */
static void take_leave(void)
{
    int over = 0;
    if (MPI_Finalized(&over) == MPI_SUCCESS && !over)
        MPI_Finalize();
}

static int complain(char *why, size_t why_size, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int length;
    MPI_Error_string(code, text, &length);
    snprintf(why, why_size, "%s: %s", what, text);
    return 1;
}

static int start(char *why, size_t why_size)
{
    int there = 0, over = 0, level;
    MPI_Initialized(&there);
    MPI_Finalized(&over);
    if (over) {
        snprintf(why, why_size, "MPI has been finalized in this process; create the world before that");
        return 1;
    }
    if (there)
        return 0;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (code != MPI_SUCCESS)
        return complain(why, why_size, "MPI_Init_thread", code);
    atexit(take_leave);
    return 0;
}

/* What MPI is given stays its own when the time is up. */
static int broadcast(char word[PLAIT_MPI_WORD_BYTES], int64_t timeout_ms, char *why, size_t why_size)
{
    static char bytes[PLAIT_MPI_WORD_BYTES];
    MPI_Request request;
    int done = 0;
    memcpy(bytes, word, sizeof bytes);
    int code = MPI_Ibcast(bytes, (int)sizeof bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    for (int64_t left = timeout_ms; code == MPI_SUCCESS && !done && left >= 0; left--) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && !done)
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    if (code != MPI_SUCCESS)
        return complain(why, why_size, "MPI_Ibcast", code);
    memcpy(word, bytes, sizeof bytes);
    if (!done)
        snprintf(why, why_size, "not all ranks came to MPI's broadcast in time");
    return !done;
}

int plait_mpi_share(int rank, int size, char word[PLAIT_MPI_WORD_BYTES], int64_t timeout_ms, char *why,
                    size_t why_size)
{
    int mpi_rank, mpi_size;
    if (start(why, why_size) != 0)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
    if (mpi_rank == rank && mpi_size == size)
        return broadcast(word, timeout_ms, why, why_size);
    snprintf(
        why, why_size,
        "rank %d of %d is rank %d of %d to MPI; was the program started by another MPI's mpirun than the one "
        "that libplait-mpi.so is linked to?",
        rank, size, mpi_rank, mpi_size);
    return 1;
}
