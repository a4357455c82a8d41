#include "model/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/base/rng.h"
#include "model/data/order.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files' numbers are read as they are");

#define HEADER_INTS     256
#define HEADER_BYTES    (HEADER_INTS * sizeof(int32_t))
#define MAGIC_SHORT     20240520 /* uint16 tokens */
#define VERSION_SHORT   1
#define MAGIC_LONG      20240801 /* uint32 tokens */
#define VERSION_LONG    7
#define HELD_OUT_MOST   ((uint64_t)1 << 20) /* of shards */
#define CHUNK_BYTES     8192
#define OFFSET_STREAM   ((uint64_t)1 << 32) /* of an epoch's key: above, where each shard's sequences start */
#define SPARE_FILES     128                 /* descriptors for everything else */
#define FINGERPRINT_MAX 4096

/* ---- open ---- */

/* Reads exactly `bytes` bytes at `offset`. */
static bool read_at(const dataset_t *data, const shard_t *shard, void *into, size_t bytes, uint64_t offset,
                    fault_t *fault)
{
    char *at = into;
    while (bytes > 0) {
        ssize_t got = pread(shard->file, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fault_set(fault, "%s %s: cannot be read at byte %llu: %s", data->flag, shard->path,
                             (unsigned long long)offset,
                             got < 0 ? strerror(errno) : "it has become shorter since it was opened");
        at += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

static bool open_file(const dataset_t *data, shard_t *shard, uint64_t *bytes, fault_t *fault)
{
    shard->file = open(shard->path, O_RDONLY | O_CLOEXEC);
    if (shard->file < 0)
        return fault_set(fault, "%s %s: %s%s", data->flag, shard->path, strerror(errno),
                         errno == EMFILE ? " (ulimit -n says how many)" : "");
    struct stat status;
    if (fstat(shard->file, &status) != 0 || !S_ISREG(status.st_mode))
        return fault_set(fault, "%s %s: not a regular file", data->flag, shard->path);
    *bytes = (uint64_t)status.st_size;
    return true;
}

/* The form that a file's magic says, as bytes of a token, or 0. */
static int form_of(const uint32_t *header, uint64_t bytes)
{
    if (bytes < sizeof *header)
        return 0;
    return header[0] == MAGIC_SHORT ? 2 : header[0] == MAGIC_LONG ? 4 : 0;
}

static bool check_shard(const dataset_t *data, shard_t *shard, const uint32_t *header, uint64_t bytes,
                        fault_t *fault)
{
    int form = form_of(header, bytes);
    if (bytes < HEADER_BYTES)
        return fault_set(fault, "%s %s: a header of %zu bytes is missing: the file has %llu", data->flag,
                         shard->path, HEADER_BYTES, (unsigned long long)bytes);
    if (form == 0)
        return fault_set(fault, "%s %s: magic is %u, of a token shard it is %d or %d", data->flag,
                         shard->path, header[0], MAGIC_SHORT, MAGIC_LONG);
    uint32_t version = form == 2 ? VERSION_SHORT : VERSION_LONG;
    if (header[1] != version)
        return fault_set(fault, "%s %s: version is %u, with magic %u it must be %u", data->flag, shard->path,
                         header[1], header[0], version);
    if (data->token_bytes != 0 && data->token_bytes != form)
        return fault_set(fault, "%s %s: magic is %u, another than of the files before it", data->flag,
                         shard->path, header[0]);
    shard->count = header[2];
    uint64_t expected = HEADER_BYTES + shard->count * (uint64_t)form;
    if (shard->count == 0 || bytes != expected)
        return fault_set(
            fault, "%s %s: token count is %u, for which the file would have %llu bytes; it has %llu",
            data->flag, shard->path, header[2], (unsigned long long)expected, (unsigned long long)bytes);
    return true;
}

/* What an unknown file is. Fills in the form of the dataset and the count of the file. */
static bool inspect(dataset_t *data, shard_t *shard, data_kind_t kind, uint64_t bytes, fault_t *fault)
{
    uint32_t header[HEADER_INTS] = {0};
    size_t begin = bytes < HEADER_BYTES ? (size_t)bytes : HEADER_BYTES;
    if (!read_at(data, shard, header, begin, 0, fault))
        return false;
    bool text = kind == DATA_TEXT;
    if (kind == DATA_AUTO && data->shard_count == 1 && form_of(header, bytes) == 0) {
        if (memchr(header, 0, begin) != NULL)
            return fault_set(
                fault,
                "%s %s: magic is %u, of a token shard it is %d or %d, and for a text it has zero bytes "
                "in its beginning (--data-kind text takes any bytes)",
                data->flag, shard->path, header[0], MAGIC_SHORT, MAGIC_LONG);
        text = true;
    }
    if (text && data->shard_count > 1)
        return fault_set(fault, "%s: %d files match, but a text is one file", data->flag, data->shard_count);
    if (!text && !check_shard(data, shard, header, bytes, fault))
        return false;
    if (text)
        shard->count = bytes;
    data->token_bytes = text ? 1 : form_of(header, bytes);
    data->header_bytes = text ? 0 : HEADER_BYTES;
    return true;
}

/* All shards stay open: as many descriptors as may be had. */
static void allow_files(int count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)count + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit); /* if not: opening fails, and says so */
}

static bool open_all(dataset_t *data, char *const *paths, int count, data_kind_t kind, fault_t *fault)
{
    data->shards = calloc((size_t)count, sizeof *data->shards);
    if (data->shards == NULL)
        return fault_set(fault, "%s: no memory for %d files", data->flag, count);
    data->shard_count = count;
    for (int i = 0; i < count; i++)
        data->shards[i].file = -1;
    allow_files(count);
    for (int i = 0; i < count; i++) {
        shard_t *shard = &data->shards[i];
        uint64_t bytes;
        shard->path = strdup(paths[i]);
        if (shard->path == NULL)
            return fault_set(fault, "%s: no memory for a file's name", data->flag);
        shard->first = data->count;
        if (!open_file(data, shard, &bytes, fault) || !inspect(data, shard, kind, bytes, fault))
            return false;
        data->count += shard->count;
        posix_fadvise(shard->file, 0, 0, POSIX_FADV_RANDOM);
    }
    return true;
}

bool dataset_open(dataset_t *data, const char *flag, const char *path, data_kind_t kind, int vocab,
                  fault_t *fault)
{
    *data = (dataset_t){.flag = flag, .vocab = vocab};
    glob_t matches = {0};
    bool good;
    if (access(path, F_OK) == 0 || strpbrk(path, "*?[") == NULL) {
        char *one[] = {(char *)(uintptr_t)path}; /* only read */
        good = open_all(data, one, 1, kind, fault);
    } else if (glob(path, 0, NULL, &matches) != 0 || matches.gl_pathc > 1 << 20) {
        good = fault_set(fault, "%s %s: %s", flag, path,
                         matches.gl_pathc > 0 ? "too many files" : "no file matches");
    } else {
        good = open_all(data, matches.gl_pathv, (int)matches.gl_pathc, kind, fault);
    }
    globfree(&matches);
    if (!good)
        dataset_close(data);
    return good;
}

void dataset_close(dataset_t *data)
{
    for (int i = 0; i < data->shard_count; i++) {
        if (data->shards[i].file >= 0)
            close(data->shards[i].file);
        free(data->shards[i].path);
    }
    free(data->shards);
    free(data->documents);
    *data = (dataset_t){0};
}

/* ---- the parts ---- */

static uint64_t held_out_count(const dataset_t *data, uint64_t count, bool all)
{
    uint64_t twentieth = all ? 0 : count / 20;
    return data->token_bytes > 1 && twentieth > HELD_OUT_MOST ? HELD_OUT_MOST : twentieth;
}

/* A training sequence and, unless all is for training, one held-out target with the token before it. */
static bool long_enough(const dataset_t *data, uint64_t count, int T, bool all)
{
    uint64_t held_out = held_out_count(data, count, all);
    return (all || held_out >= 2) && count - held_out >= (uint64_t)T + 1;
}

/* Of a shard, its first tokens that are for training. */
static uint64_t training_tokens(const dataset_t *data, const shard_t *shard)
{
    uint64_t training = data->train_count > shard->first ? data->train_count - shard->first : 0;
    return training < shard->count ? training : shard->count;
}

static void count_sequences(dataset_t *data)
{
    data->sequences = 0;
    for (int i = 0; i < data->shard_count; i++) {
        shard_t *shard = &data->shards[i];
        uint64_t training = training_tokens(data, shard);
        shard->number = data->sequences;
        shard->sequences = training > 0 ? (training - 1) / (uint64_t)data->T : 0;
        shard->spare = training > 0 ? (training - 1) % (uint64_t)data->T : 0;
        data->sequences += shard->sequences;
    }
}

bool dataset_split(dataset_t *data, int T, bool all, fault_t *fault)
{
    const char *path = data->shards[0].path;
    data->T = T;
    data->train_count = data->count - held_out_count(data, data->count, all);
    if (data->token_bytes > 1)
        count_sequences(data);
    bool enough = long_enough(data, data->count, T, all);
    if (enough && (data->token_bytes == 1 || data->sequences > 0))
        return true;
    if (enough)
        return fault_set(fault, "%s %s: no file has %d tokens for training, which a context of %d needs",
                         data->flag, path, T + 1, T);
    uint64_t least = (uint64_t)T + 1;
    while (!long_enough(data, least, T, all))
        least++;
    const char *unit = data->token_bytes == 1 ? "bytes" : "tokens";
    return fault_set(
        fault,
        "%s %s: a text of %llu %s is too short for a context of %d tokens, which needs %llu: use a "
        "longer text or a smaller --context",
        data->flag, path, (unsigned long long)data->count, unit, T, (unsigned long long)least);
}

/* ---- tokens ---- */

/* The last shard that begins at or before a token, or a sequence. */
static const shard_t *shard_of(const dataset_t *data, uint64_t value, bool is_sequence)
{
    int low = 0, high = data->shard_count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        const shard_t *shard = &data->shards[middle];
        if ((is_sequence ? shard->number : shard->first) <= value)
            low = middle;
        else
            high = middle - 1;
    }
    return &data->shards[low];
}

static int decode(const unsigned char *bytes, int token_bytes)
{
    uint16_t narrow;
    uint32_t wide;
    switch (token_bytes) {
    case 1:
        return bytes[0];
    case 2:
        memcpy(&narrow, bytes, sizeof narrow);
        return narrow;
    default:
        memcpy(&wide, bytes, sizeof wide);
        return wide > INT32_MAX ? INT32_MAX : (int)wide;
    }
}

/* At most CHUNK_BYTES' tokens of one shard. */
static bool read_chunk(const dataset_t *data, const shard_t *shard, uint64_t at, size_t count, int *tokens,
                       fault_t *fault)
{
    unsigned char bytes[CHUNK_BYTES];
    size_t width = (size_t)data->token_bytes;
    if (!read_at(data, shard, bytes, count * width, data->header_bytes + at * width, fault))
        return false;
    for (size_t i = 0; i < count; i++) {
        tokens[i] = decode(bytes + i * width, data->token_bytes);
        if (tokens[i] >= data->vocab)
            return fault_set(fault, "%s %s: token number %llu is %d; the model has %d classes (--vocab)",
                             data->flag, shard->path, (unsigned long long)(at + i), tokens[i], data->vocab);
    }
    return true;
}

bool dataset_read(const dataset_t *data, uint64_t first, size_t count, int *tokens, fault_t *fault)
{
    const shard_t *shard = shard_of(data, first, false);
    uint64_t at = first - shard->first;
    while (count > 0) {
        if (at == shard->count) {
            shard++;
            at = 0;
        }
        size_t part = CHUNK_BYTES / (size_t)data->token_bytes;
        if (part > count)
            part = count;
        if (part > shard->count - at)
            part = (size_t)(shard->count - at);
        if (!read_chunk(data, shard, at, part, tokens, fault))
            return false;
        tokens += part;
        count -= part;
        at += part;
    }
    return true;
}

/* Of its epoch: the key, and which of all it is. */
static uint64_t number_of(const dataset_t *data, uint64_t seed, uint64_t q, uint64_t *epoch_key)
{
    *epoch_key = rng_at(rng_at(seed, RNG_BATCH), q / data->sequences);
    order_t order = order_of(*epoch_key, data->sequences);
    return order_at(&order, q % data->sequences);
}

int dataset_sequence_rows(const dataset_t *data, uint64_t seed, uint64_t q)
{
    uint64_t epoch_key;
    return data->documents ? data->documents[number_of(data, seed, q, &epoch_key)].rows : data->T;
}

uint64_t dataset_sequence_start(const dataset_t *data, uint64_t seed, uint64_t q)
{
    if (data->token_bytes == 1 && !data->documents)
        return rng_at(rng_at(seed, RNG_BATCH), q) % (data->train_count - (uint64_t)data->T);
    uint64_t epoch_key, number = number_of(data, seed, q, &epoch_key);
    if (data->documents)
        return data->documents[number].start;
    const shard_t *shard = shard_of(data, number, true);
    uint64_t late = rng_at(epoch_key, OFFSET_STREAM + (uint64_t)(shard - data->shards)) % (shard->spare + 1);
    return shard->first + late + (number - shard->number) * (uint64_t)data->T;
}

/* ---- documents ---- */

/* Tokens [first, last) are inputs and targets of one document: as many sequences as it takes. */
static bool add_document(dataset_t *data, uint64_t first, uint64_t last, uint64_t *room)
{
    for (uint64_t at = first; at + 1 < last; at += (uint64_t)data->T) {
        const uint64_t left = last - 1 - at, rows = left < (uint64_t)data->T ? left : (uint64_t)data->T;
        if (data->sequences == *room) {
            *room = *room ? 2 * *room : 1024;
            document_t *more = realloc(data->documents, *room * sizeof *more);
            if (more == NULL)
                return false;
            data->documents = more;
        }
        data->documents[data->sequences++] = (document_t){at, (int)rows};
    }
    return true;
}

static bool find_in_shard(dataset_t *data, const shard_t *shard, uint64_t *room, fault_t *fault)
{
    int tokens[CHUNK_BYTES];
    uint64_t begin = 0, count = training_tokens(data, shard);
    size_t part = 0;
    for (uint64_t at = 0; at < count; at += part) {
        part = CHUNK_BYTES / (size_t)data->token_bytes;
        part = part < count - at ? part : (size_t)(count - at);
        if (!read_chunk(data, shard, at, part, tokens, fault))
            return false;
        for (size_t i = 0; i < part; i++) {
            if (tokens[i] != data->end && at + i + 1 < count)
                continue;
            if (!add_document(data, shard->first + begin, shard->first + at + i + 1, room))
                return fault_set(fault, "%s: no memory for the places of its documents", data->flag);
            begin = at + i + 1;
        }
    }
    return true;
}

bool dataset_find_documents(dataset_t *data, int end, fault_t *fault)
{
    uint64_t room = 0;
    data->end = end;
    data->sequences = 0;
    for (int i = 0; i < data->shard_count; i++)
        if (!find_in_shard(data, &data->shards[i], &room, fault))
            return false;
    return data->sequences > 0 ||
           fault_set(fault, "%s: no document has two tokens (--document-end %d)", data->flag, end);
}

bool dataset_sequence(const dataset_t *data, uint64_t start, int T, int *inputs, int *targets, fault_t *fault)
{
    if (!dataset_read(data, start, 1, inputs, fault) ||
        !dataset_read(data, start + 1, (size_t)T, targets, fault))
        return false;
    memcpy(inputs + 1, targets, (size_t)(T - 1) * sizeof *inputs);
    return true;
}

bool dataset_fingerprint(const dataset_t *data, uint64_t *hash, fault_t *fault)
{
    *hash = rng_hash(rng_hash(0, (uint64_t)data->token_bytes), (uint64_t)data->shard_count);
    if (data->documents)
        *hash = rng_hash(*hash, (uint64_t)data->end);
    for (int i = 0; i < data->shard_count; i++) {
        const shard_t *shard = &data->shards[i];
        uint64_t words[FINGERPRINT_MAX / sizeof(uint64_t)] = {0};
        uint64_t bytes = data->header_bytes + shard->count * (uint64_t)data->token_bytes;
        if (!read_at(data, shard, words, bytes < sizeof words ? (size_t)bytes : sizeof words, 0, fault))
            return false;
        *hash = rng_hash(*hash, bytes);
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            *hash = rng_hash(*hash, words[k]);
    }
    return true;
}
