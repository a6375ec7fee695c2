/* Who this rank is and where the others are, from the caller's options or from
 * the environment that launchers such as torchrun set. */
#include "base/settings.h"

#include <limits.h>

#include "base/status.h"

/* The number in variable `name`, if it is set; *set says whether it was. */
static plait_status read_number(const char *name, int64_t least, int64_t most, const char *good, int *number,
                                bool *set)
{
    int64_t value;
    const char *text = settings_variable(name);
    *set = text != NULL;
    if (!text)
        return PLAIT_OK;
    if (!settings_parse_number(text, least, most, &value))
        return failure(PLAIT_INVALID_SETTING, "%s is '%.64s'; good values: %s", name, text, good);
    *number = (int)value;
    return PLAIT_OK;
}

/* RANK and WORLD_SIZE; a world of one when neither is set. */
static plait_status read_rank(struct settings *settings)
{
    bool has_rank, has_size;
    plait_status status =
        read_number("WORLD_SIZE", 1, INT_MAX, "the number of ranks, from 1", &settings->size, &has_size);
    if (status == PLAIT_OK)
        status =
            read_number("RANK", 0, INT_MAX, "a number from 0 to WORLD_SIZE - 1", &settings->rank, &has_rank);
    if (status != PLAIT_OK)
        return status;

    if (has_rank && !has_size)
        return failure(PLAIT_INVALID_SETTING, "RANK is %d but WORLD_SIZE is not set; a launcher sets both",
                       settings->rank);
    if (!has_size)
        settings->size = 1;
    else if (!has_rank && settings->size > 1)
        return failure(PLAIT_INVALID_SETTING, "WORLD_SIZE is %d but RANK is not set; a launcher sets both",
                       settings->size);
    if (settings->rank >= settings->size)
        return failure(PLAIT_INVALID_SETTING, "RANK is %d and WORLD_SIZE is %d; ranks count from 0 to %d",
                       settings->rank, settings->size, settings->size - 1);
    return PLAIT_OK;
}

/* LOCAL_RANK and LOCAL_WORLD_SIZE: a hint of the launcher's, either may be missing. */
static plait_status read_local_rank(struct settings *settings)
{
    bool has_rank, has_size;
    plait_status status = read_number("LOCAL_RANK", 0, INT_MAX, "a number from 0 to LOCAL_WORLD_SIZE - 1",
                                      &settings->local_rank, &has_rank);
    if (status == PLAIT_OK)
        status = read_number("LOCAL_WORLD_SIZE", 1, INT_MAX, "the number of ranks on this host, from 1",
                             &settings->local_size, &has_size);
    if (status == PLAIT_OK && has_rank && has_size && settings->local_rank >= settings->local_size)
        status = failure(PLAIT_INVALID_SETTING,
                         "LOCAL_RANK is %d and LOCAL_WORLD_SIZE is %d; local ranks count from 0 to %d",
                         settings->local_rank, settings->local_size, settings->local_size - 1);
    return status;
}

/* Where rank 0 listens: the options, else MASTER_ADDR and MASTER_PORT. */
static plait_status read_address(struct settings *settings, const plait_world_options *options)
{
    bool has_port = options->port != 0;
    plait_status status = PLAIT_OK;

    settings->address =
        options->address && options->address[0] ? options->address : settings_variable("MASTER_ADDR");
    settings->port = options->port;
    if (!has_port)
        status = read_number("MASTER_PORT", 1, 65535, "a port from 1 to 65535", &settings->port, &has_port);
    if (status != PLAIT_OK || settings->size == 1)
        return status;

    if (!settings->address)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d of %d does not know where rank 0 is: set MASTER_ADDR to its host name or "
                       "address (or give options.address, .file or .store)",
                       settings->rank, settings->size);
    if (!has_port)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d of %d does not know the port of rank 0 at %.64s: set MASTER_PORT (or give "
                       "options.port)",
                       settings->rank, settings->size, settings->address);
    return PLAIT_OK;
}

/* Options whose values can't be, alone or together. */
static plait_status check_options(const plait_world_options *options)
{
    if (options->size < 0)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.size is %d; good values: 1 and more, or 0 for WORLD_SIZE", options->size);
    if (options->size == 0 && options->rank != 0)
        return failure(
            PLAIT_INVALID_ARGUMENT,
            "options.rank is %d and options.size is 0: give both, or neither for RANK and WORLD_SIZE",
            options->rank);
    if (options->size > 0 && (options->rank < 0 || options->rank >= options->size))
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.rank is %d and options.size is %d; ranks count from 0 to %d", options->rank,
                       options->size, options->size - 1);
    if (options->size == 0 && (options->threads || options->store))
        return failure(PLAIT_INVALID_ARGUMENT, "options.%s needs options.rank and options.size beside it",
                       options->threads ? "threads" : "store");
    if (options->port < 0 || options->port > 65535)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.port is %d; good values: 1 to 65535, or 0 for MASTER_PORT", options->port);
    const plait_store *store = options->store;
    if (store && store->struct_size != 0 && store->struct_size < sizeof *store)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.store->struct_size is %zu; set it to sizeof(plait_store), %zu",
                       store->struct_size, sizeof *store);
    if (store && (!store->set || !store->get || !store->add || !store->wait))
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.store lacks a function; it needs set, get, add and wait");
    return PLAIT_OK;
}

plait_status settings_load_launch(struct settings *settings, const plait_world_options *options)
{
    plait_status status = check_options(options);
    if (status != PLAIT_OK)
        return status;

    settings->rank = options->rank;
    settings->size = options->size;
    if (options->size == 0) {
        status = read_rank(settings);
        if (status == PLAIT_OK)
            status = read_local_rank(settings);
    }
    if (status == PLAIT_OK && !settings->threads && !settings->store && !settings->file)
        status = read_address(settings, options);
    return status;
}
