/* Starts local ranks: this program again, once for each, with torchrun's variables set. */
#ifndef PLAIT_BENCH_LAUNCH_H
#define PLAIT_BENCH_LAUNCH_H

/* Runs `ranks` processes with this one's arguments and --launched before them, hands signals on to
 * them, and returns when all have ended: 0, or the exit status of the first that failed (1 if it was
 * killed), or 128 + the signal after one. When one fails, the others get two seconds to say what
 * they saw and are ended then. They end, too, when this process is killed. */
int launch_ranks(int ranks, int argc, char **argv);

#endif
