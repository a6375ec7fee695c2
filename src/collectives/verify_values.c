#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/verify.h"

bool values_open(struct values *values, int ranks)
{
    *values = (struct values){ .ranks = ranks, .words = (ranks + 63) / 64, .count = 1, .table_size = 256 };
    values->table = calloc(values->table_size, sizeof *values->table);
    return values->table != NULL;
}

void values_close(struct values *values)
{
    free(values->all);
    free(values->contributors);
    free(values->table);
    *values = (struct values){ 0 };
}

static const uint64_t *contributors(const struct values *values, int number)
{
    return values->contributors + (size_t)number * (size_t)values->words;
}

static size_t hash(enum value_kind kind, int left, int right)
{
    uint64_t mixed = (uint64_t)left << 34 ^ (uint64_t)right << 2 ^ kind;
    mixed *= 0x9e3779b97f4a7c15u;
    return (size_t)(mixed ^ mixed >> 29);
}

/* The place in the table where the value is, or would be. */
static int *find(const struct values *values, enum value_kind kind, int left, int right)
{
    size_t at = hash(kind, left, right);
    for (;; at++) {
        int *place = &values->table[at & (values->table_size - 1)];
        const struct value *value = &values->all[*place];
        if (*place == 0 || (value->kind == kind && value->left == left && value->right == right))
            return place;
    }
}

static bool grow_table(struct values *values)
{
    int *table = calloc(values->table_size * 2, sizeof *table);
    if (!table)
        return false;
    free(values->table);
    values->table = table;
    values->table_size *= 2;
    for (int i = 1; i < values->count; i++)
        *find(values, values->all[i].kind, values->all[i].left, values->all[i].right) = i;
    return true;
}

static bool grow(struct values *values)
{
    if ((size_t)values->count * 2 >= values->table_size && !grow_table(values))
        return false;
    if (values->count < values->room)
        return true;
    int room = values->room ? values->room * 2 : 64;
    struct value *all = realloc(values->all, (size_t)room * sizeof *all);
    if (!all)
        return false;
    values->all = all;
    uint64_t *sets = realloc(values->contributors, (size_t)room * (size_t)values->words * sizeof *sets);
    if (!sets)
        return false;
    values->contributors = sets;
    values->room = room;
    return true;
}

/* The number of a value; a new one when it is new, with nobody in its set yet and *fresh set. */
static int number_of(struct values *values, enum value_kind kind, int left, int right, int block, bool *fresh)
{
    *fresh = false;
    if (!grow(values))
        return 0;
    int *place = find(values, kind, left, right);
    if (*place != 0)
        return *place;
    *fresh = true;
    *place = values->count++;
    values->all[*place] = (struct value){ .kind = kind, .left = left, .right = right, .block = block };
    memset(values->contributors + (size_t)*place * (size_t)values->words, 0,
           (size_t)values->words * sizeof(uint64_t));
    return *place;
}

static void include(struct values *values, int number, int of)
{
    uint64_t *set = values->contributors + (size_t)number * (size_t)values->words;
    for (int i = 0; i < values->words; i++)
        set[i] |= contributors(values, of)[i];
}

int value_input(struct values *values, int rank, int block)
{
    bool fresh;
    int number = number_of(values, VALUE_INPUT, rank, block, block, &fresh);
    if (fresh)
        values->contributors[(size_t)number * (size_t)values->words + (size_t)rank / 64] |= (uint64_t)1
                                                                                            << rank % 64;
    return number;
}

int value_fold(struct values *values, int left, int right)
{
    bool fresh;
    int number = number_of(values, VALUE_FOLD, left, right, values->all[left].block, &fresh);
    if (fresh) {
        include(values, number, left);
        include(values, number, right);
    }
    return number;
}

int value_result(struct values *values, int of)
{
    bool fresh;
    int number = number_of(values, VALUE_RESULT, of, 0, values->all[of].block, &fresh);
    if (fresh)
        include(values, number, of);
    return number;
}

bool values_fit(const struct values *values, int left, int right, char *why, size_t size)
{
    const struct value *a = &values->all[left], *b = &values->all[right];
    if (a->kind == VALUE_RESULT || b->kind == VALUE_RESULT) {
        snprintf(why, size, "folds a value that is divided and rounded already");
        return false;
    }
    if (a->block != b->block) {
        snprintf(why, size, "folds block %d into block %d", b->block, a->block);
        return false;
    }
    for (int rank = 0; rank < values->ranks; rank++) {
        uint64_t both = contributors(values, left)[rank / 64] & contributors(values, right)[rank / 64];
        if (both >> rank % 64 & 1) {
            snprintf(why, size, "folds the contribution of rank %d a second time", rank);
            return false;
        }
    }
    return true;
}

bool value_complete(const struct values *values, int number, int ranks, int *culprit)
{
    for (int rank = 0; rank < values->ranks; rank++) {
        *culprit = rank;
        if ((contributors(values, number)[rank / 64] >> rank % 64 & 1) != (rank < ranks))
            return false;
    }
    return true;
}

/* Walks the contributions from left to right; `last` is the rank of the latest. */
static bool walk_in_order(const struct values *values, int number, int *last)
{
    const struct value *value = &values->all[number];
    if (value->kind == VALUE_FOLD)
        return walk_in_order(values, value->left, last) && walk_in_order(values, value->right, last);
    if (value->kind == VALUE_RESULT)
        return walk_in_order(values, value->left, last);
    bool ascends = value->left > *last;
    *last = value->left;
    return ascends;
}

bool value_in_order(const struct values *values, int number)
{
    int last = -1;
    return walk_in_order(values, number, &last);
}

void value_describe(const struct values *values, int number, char *text, size_t size)
{
    const struct value *value = number ? &values->all[number] : NULL;
    int ranks = 0;
    for (int i = 0; value && i < values->words; i++)
        ranks += __builtin_popcountll(contributors(values, number)[i]);
    if (!value)
        snprintf(text, size, "nothing");
    else if (value->kind == VALUE_INPUT)
        snprintf(text, size, "block %d of rank %d's input", value->block, value->left);
    else
        snprintf(text, size, "%s of %d ranks' block %d", value->kind == VALUE_RESULT ? "the result" : "a sum",
                 ranks, value->block);
}
