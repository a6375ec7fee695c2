/* plait-perf: how fast Plait's collectives are here, and whether their results are right. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "micro.h"
#include "options.h"
#include "rank.h"

struct member {
    pthread_t thread;
    const struct options *options;
    plait_thread_group *group;
    int number, exit_status;
};

static void *run_member(void *argument)
{
    struct member *member = argument;
    member->exit_status = rank_run(member->options, member->group, member->number);
    return NULL;
}

/* Exits when a thread can't be started: the others would wait for it. */
static void start_member(struct member *member)
{
    int error = pthread_create(&member->thread, NULL, run_member, member);
    if (error == 0)
        return;
    fprintf(stderr, "plait-perf: can't start thread %d of %d: %s\n", member->number, member->options->threads,
            strerror(error));
    exit(EXIT_FAILURE);
}

static int run_threads(const struct options *options)
{
    int exit_status = EXIT_SUCCESS;
    plait_thread_group *group = NULL;
    struct member *members = calloc((size_t)options->threads, sizeof *members);
    if (!members || plait_thread_group_create(options->threads, &group) != PLAIT_OK) {
        fprintf(stderr, "plait-perf: %s\n", members ? plait_last_error() : "out of memory");
        free(members);
        return EXIT_FAILURE;
    }
    for (int i = 0; i < options->threads; i++) {
        members[i] = (struct member){ .options = options, .group = group, .number = i };
        start_member(&members[i]);
    }
    for (int i = 0; i < options->threads; i++) {
        pthread_join(members[i].thread, NULL);
        if (members[i].exit_status != EXIT_SUCCESS)
            exit_status = members[i].exit_status;
    }
    plait_thread_group_destroy(group);
    free(members);
    return exit_status;
}

int main(int argc, char **argv)
{
    const struct micro_tool *tool = argc > 1 ? micro_find(argv[1]) : NULL;
    if (tool)
        return micro_run(tool, argc - 1, argv + 1);
    struct options options;
    options_parse(&options, argc, argv);
    if (options.threads)
        return run_threads(&options);
    if (options.ranks && !options.launched)
        return launch_ranks(options.ranks, argc, argv);
    return rank_run(&options, NULL, 0);
}
