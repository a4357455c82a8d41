/* config.c: a model's config.json, as Hugging Face's `transformers` has it, and its adapters' adapter_config.json, as PEFT has it:
 * written and read. */
#include "model/files/weights.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

/* An object that is being filled in; good: no memory was missing. */
typedef struct config {
    cJSON *object;
    bool good;
} config_t;

static void put_text(config_t *c, const char *name, const char *value)
{
    c->good = c->good && cJSON_AddStringToObject(c->object, name, value) != NULL;
}

static void put_number(config_t *c, const char *name, double value)
{
    c->good = c->good && cJSON_AddNumberToObject(c->object, name, value) != NULL;
}

/* A number that must not look like a whole one. */
static void put_real(config_t *c, const char *name, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.17g", value);
    if (strpbrk(text, ".e") == NULL)
        strcat(text, ".0");
    c->good = c->good && cJSON_AddRawToObject(c->object, name, text) != NULL;
}

static void put_flag(config_t *c, const char *name, bool value)
{
    c->good = c->good && cJSON_AddBoolToObject(c->object, name, value) != NULL;
}

static void put_null(config_t *c, const char *name)
{
    c->good = c->good && cJSON_AddNullToObject(c->object, name) != NULL;
}

static void put_class(config_t *c, const char *type, const char *class)
{
    const char *const classes[] = {class};
    put_text(c, "model_type", type);
    c->good =
        c->good && cJSON_AddItemToObject(c->object, "architectures", cJSON_CreateStringArray(classes, 1));
}

static void describe_gpt2(config_t *c, const shape_t *s, double dropout)
{
    put_class(c, "gpt2", "GPT2LMHeadModel");
    put_number(c, "n_layer", s->layers);
    put_number(c, "n_embd", s->width);
    put_number(c, "n_head", s->heads);
    put_number(c, "n_inner", s->hidden);
    put_number(c, "n_positions", s->context);
    put_text(c, "activation_function", "gelu_new");
    put_number(c, "layer_norm_epsilon", s->norm_eps);
    put_number(c, "resid_pdrop", dropout);
    put_number(c, "embd_pdrop", dropout);
    put_number(c, "attn_pdrop", dropout);
    put_flag(c, "scale_attn_weights", true);
}

/* Llama 3.1's stretched positions, with the constants that all its published models have. */
static void describe_stretch(config_t *c, const shape_t *s)
{
    if (s->rope_factor == 1) {
        put_null(c, "rope_scaling");
        return;
    }
    config_t stretch = {cJSON_CreateObject(), true};
    put_text(&stretch, "rope_type", "llama3");
    put_real(&stretch, "factor", s->rope_factor);
    put_real(&stretch, "low_freq_factor", 1);
    put_real(&stretch, "high_freq_factor", 4);
    put_number(&stretch, "original_max_position_embeddings", 8192);
    c->good = c->good && stretch.good && cJSON_AddItemToObject(c->object, "rope_scaling", stretch.object);
}

static void describe_llama(config_t *c, const shape_t *s)
{
    put_class(c, "llama", "LlamaForCausalLM");
    put_number(c, "num_hidden_layers", s->layers);
    put_number(c, "hidden_size", s->width);
    put_number(c, "num_attention_heads", s->heads);
    put_number(c, "num_key_value_heads", s->kv_heads);
    put_number(c, "head_dim", s->width / s->heads);
    put_number(c, "intermediate_size", s->hidden);
    put_number(c, "max_position_embeddings", s->context);
    put_text(c, "hidden_act", "silu");
    put_number(c, "rms_norm_eps", s->norm_eps);
    put_real(c, "rope_theta", s->rope_theta);
    describe_stretch(c, s);
    put_flag(c, "attention_bias", false);
    put_flag(c, "mlp_bias", false);
}

static bool write_text(const char *path, const char *text, fault_t *fault)
{
    FILE *file = fopen(path, "we");
    bool good =
        file != NULL && fprintf(file, "%s\n", text) > 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (!good)
        fault_write(fault, "%s: cannot be written: %s", path, strerror(errno));
    if (file != NULL)
        fclose(file);
    return good;
}

/* Prints and frees it. */
static bool write_object(config_t *c, const char *path, fault_t *fault)
{
    char *text = c->good ? cJSON_Print(c->object) : NULL;
    bool good = text != NULL ? write_text(path, text, fault) : fault_set(fault, "%s: no memory for it", path);
    cJSON_free(text);
    cJSON_Delete(c->object);
    return good;
}

bool config_write(const char *path, const shape_t *shape, element_t element, double dropout, int end,
                  fault_t *fault)
{
    config_t c = {cJSON_CreateObject(), true};
    c.good = c.object != NULL;
    if (shape->family == FAMILY_GPT2)
        describe_gpt2(&c, shape, dropout);
    else
        describe_llama(&c, shape);
    put_number(&c, "vocab_size", shape->vocab);
    put_flag(&c, "tie_word_embeddings", shape->tied);
    put_number(&c, "initializer_range", 0.02);
    put_text(&c, "torch_dtype", element == ELEMENT_F32 ? "float32" : "bfloat16");
    put_number(&c, "bos_token_id", end);
    put_number(&c, "eos_token_id", end);
    put_flag(&c, "use_cache", true);
    return write_object(&c, path, fault);
}

/* A module's name within its block: of "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight" attn.c_attn. */
static void put_target(cJSON *names, const layout_tensor_t *adapter)
{
    char module[sizeof adapter->name];
    snprintf(module, sizeof module, "%s", strstr(adapter->name, ".0.") + 3);
    *strstr(module, ".lora_") = '\0';
    (void)cJSON_AddItemToArray(names, cJSON_CreateString(module));
}

bool adapter_config_write(const char *path, const layout_t *layout, const char *base, fault_t *fault)
{
    config_t c = {cJSON_CreateObject(), true};
    c.good = c.object != NULL;
    put_text(&c, "peft_type", "LORA");
    put_text(&c, "task_type", "CAUSAL_LM");
    put_text(&c, "base_model_name_or_path", base);
    put_number(&c, "r", layout->lora.rank);
    put_number(&c, "lora_alpha", layout->lora.alpha);
    put_real(&c, "lora_dropout", 0);
    put_text(&c, "bias", "none");
    put_flag(&c, "fan_in_fan_out", layout->shape.family == FAMILY_GPT2);
    put_flag(&c, "inference_mode", true);
    cJSON *names = c.good ? cJSON_AddArrayToObject(c.object, "target_modules") : NULL;
    for (int i = 0; names != NULL && i < layout->tensor_count; i++)
        if (layout->tensors[i].group == layout_adapters(layout, 0) && layout->tensors[i].init == INIT_UNIFORM)
            put_target(names, &layout->tensors[i]);
    return write_object(&c, path, fault);
}

/* ---- reading ---- */

/* An object that is being read, until the first fault. */
typedef struct reader {
    const char *flag, *path;
    const cJSON *object;
    fault_t *fault;
    bool good;
} reader_t;

__attribute__((format(printf, 3, 4))) static void refuse(reader_t *r, const char *name, const char *format,
                                                         ...)
{
    char why[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (r->good)
        r->good = fault_set(r->fault, "%s %s: \"%s\" %s", r->flag, r->path, name, why);
}

/* NULL: missing, or null. */
static const cJSON *item_of(const reader_t *r, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(r->object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

static double get_real(reader_t *r, const char *name, double otherwise)
{
    const cJSON *item = item_of(r, name);
    if (item == NULL)
        return otherwise;
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0)) {
        refuse(r, name, "is no positive number");
        return 1;
    }
    return item->valuedouble;
}

/* From 1 to 2^24; otherwise 0: it must be there. */
static int get_count(reader_t *r, const char *name, int otherwise)
{
    double value = get_real(r, name, otherwise);
    if (value >= 1 && value <= 1 << 24 && floor(value) == value)
        return (int)value;
    if (value == 0)
        refuse(r, name, "is missing");
    else
        refuse(r, name, "is %.12g, not a whole number from 1 to %d", value, 1 << 24);
    return 1;
}

static bool get_flag(reader_t *r, const char *name, bool otherwise)
{
    const cJSON *item = item_of(r, name);
    if (item != NULL && !cJSON_IsBool(item))
        refuse(r, name, "is neither true nor false");
    return item != NULL ? cJSON_IsTrue(item) : otherwise;
}

static const char *get_text(reader_t *r, const char *name, const char *otherwise)
{
    const cJSON *item = item_of(r, name);
    if (item == NULL || cJSON_IsString(item))
        return item != NULL ? item->valuestring : otherwise;
    refuse(r, name, "is no text");
    return otherwise;
}

static void must_be_text(reader_t *r, const char *name, const char *value)
{
    const char *text = get_text(r, name, value);
    if (strcmp(text, value) != 0)
        refuse(r, name, "is \"%s\": only \"%s\" can be computed", text, value);
}

static void must_be_real(reader_t *r, const char *name, double value)
{
    double real = get_real(r, name, value);
    if (real != value)
        refuse(r, name, "is %.12g: only %.12g can be computed", real, value);
}

static void must_be_false(reader_t *r, const char *name)
{
    if (get_flag(r, name, false))
        refuse(r, name, "is true: only false can be computed");
}

static void read_gpt2(reader_t *r, shape_t *s)
{
    s->family = FAMILY_GPT2;
    s->layers = get_count(r, "n_layer", 0);
    s->width = get_count(r, "n_embd", 0);
    s->heads = s->kv_heads = get_count(r, "n_head", 0);
    s->hidden = get_count(r, "n_inner", 4 * s->width);
    s->context = get_count(r, "n_positions", 0);
    s->norm_eps = get_real(r, "layer_norm_epsilon", 1e-5);
    s->tied = get_flag(r, "tie_word_embeddings", true);
    must_be_text(r, "activation_function", "gelu_new");
}

/* Positions: `rope_scaling`, which later versions name `rope_parameters` and give the base, too. */
static void read_rope(reader_t *r, shape_t *s)
{
    const cJSON *item = item_of(r, "rope_parameters");
    reader_t rope = *r;
    s->rope_theta = get_real(r, "rope_theta", 10000);
    rope.object = item != NULL ? item : item_of(r, "rope_scaling");
    if (!r->good || rope.object == NULL)
        return;
    s->rope_theta = get_real(&rope, "rope_theta", s->rope_theta);
    const char *type = get_text(&rope, "rope_type", get_text(&rope, "type", ""));
    if (strcmp(type, "llama3") == 0) {
        s->rope_factor = get_real(&rope, "factor", 1);
        must_be_real(&rope, "low_freq_factor", 1);
        must_be_real(&rope, "high_freq_factor", 4);
        must_be_real(&rope, "original_max_position_embeddings", 8192);
    } else if (strcmp(type, "default") != 0) {
        refuse(&rope, "rope_type", "is \"%s\": only \"llama3\" and \"default\" can be computed", type);
    }
    r->good = rope.good;
}

static void read_llama(reader_t *r, shape_t *s)
{
    s->family = FAMILY_LLAMA;
    s->layers = get_count(r, "num_hidden_layers", 0);
    s->width = get_count(r, "hidden_size", 0);
    s->heads = get_count(r, "num_attention_heads", 0);
    s->kv_heads = get_count(r, "num_key_value_heads", s->heads);
    s->hidden = get_count(r, "intermediate_size", 0);
    s->context = get_count(r, "max_position_embeddings", 0);
    s->norm_eps = get_real(r, "rms_norm_eps", 1e-6);
    s->tied = get_flag(r, "tie_word_embeddings", false);
    const int head = s->width / s->heads;
    must_be_real(r, "head_dim", head);
    must_be_text(r, "hidden_act", "silu");
    must_be_false(r, "attention_bias");
    must_be_false(r, "mlp_bias");
    read_rope(r, s);
}

/* An object in a file; its caller deletes it. */
static bool open_object(reader_t *r, cJSON **object)
{
    FILE *file = fopen(r->path, "rbe");
    if (file == NULL)
        return fault_set(r->fault, "%s %s: %s", r->flag, r->path, strerror(errno));
    *object = json_read(file);
    r->object = *object;
    r->good = cJSON_IsObject(*object);
    if (!r->good) {
        cJSON_Delete(*object);
        fault_write(r->fault, "%s %s: no JSON object", r->flag, r->path);
    }
    return r->good;
}

bool config_read(const char *flag, const char *path, shape_t *shape, element_t *element, fault_t *fault)
{
    cJSON *object;
    reader_t r = {.flag = flag, .path = path, .fault = fault};
    if (!open_object(&r, &object))
        return false;
    const char *type = get_text(&r, "model_type", "");
    *shape = (shape_t){.rope_theta = 10000, .rope_factor = 1};
    if (strcmp(type, "gpt2") == 0)
        read_gpt2(&r, shape);
    else if (strcmp(type, "llama") == 0)
        read_llama(&r, shape);
    else
        refuse(&r, "model_type", "is \"%s\": only \"gpt2\" and \"llama\" can be computed", type);
    shape->vocab = get_count(&r, "vocab_size", 0);
    if (r.good && shape->width % shape->heads != 0)
        refuse(&r, shape->family == FAMILY_GPT2 ? "n_embd" : "hidden_size",
               "is %d, no multiple of the %d heads", shape->width, shape->heads);
    const char *stored = get_text(&r, "dtype", get_text(&r, "torch_dtype", ""));
    *element = strcmp(stored, "bfloat16") == 0 ? ELEMENT_BF16 : ELEMENT_F32;
    cJSON_Delete(object);
    return r.good;
}

/* Missing, null, false, or without members. */
static void must_be_empty(reader_t *r, const char *name)
{
    const cJSON *item = item_of(r, name);
    if (item != NULL && !cJSON_IsFalse(item) &&
        (!(cJSON_IsObject(item) || cJSON_IsArray(item)) || item->child != NULL))
        refuse(r, name, "is set: that cannot be computed");
}

/* A list, or a word, as one text; to be freed. */
static char *get_targets(reader_t *r)
{
    const cJSON *item = item_of(r, "target_modules"), *name;
    size_t length = 1;
    if (cJSON_IsString(item) && strcmp(item->valuestring, "all-linear") == 0)
        return strdup(item->valuestring);
    bool good = cJSON_IsArray(item) && item->child != NULL;
    cJSON_ArrayForEach(name, item)
    {
        good = good && cJSON_IsString(name);
        length += good ? strlen(name->valuestring) + 1 : 0;
    }
    char *all = good ? calloc(length, 1) : NULL;
    if (!good)
        refuse(r, "target_modules", "is neither a list of names nor \"all-linear\"");
    for (name = good && all != NULL ? item->child : NULL; name != NULL; name = name->next) {
        strcat(all, name->valuestring);
        strcat(all, name->next != NULL ? "," : "");
    }
    return all;
}

bool adapter_config_read(const char *flag, const char *path, lora_t *lora, fault_t *fault)
{
    static const char *const variants[] = {"use_rslora",
                                           "use_dora",
                                           "lora_bias",
                                           "modules_to_save",
                                           "rank_pattern",
                                           "alpha_pattern",
                                           "layers_to_transform",
                                           "exclude_modules",
                                           "target_parameters",
                                           "layer_replication",
                                           "use_qalora",
                                           "alora_invocation_tokens",
                                           "trainable_token_indices"};
    static const char *const starts[] = {"pissa", "olora", "corda",
                                         "loftq"}; /* that change the frozen weights */
    cJSON *object;
    reader_t r = {.flag = flag, .path = path, .fault = fault};
    if (!open_object(&r, &object))
        return false;
    must_be_text(&r, "peft_type", "LORA");
    must_be_text(&r, "bias", "none");
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        must_be_empty(&r, variants[i]);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const cJSON *start = item_of(&r, "init_lora_weights");
        if (cJSON_IsString(start) && strncmp(start->valuestring, starts[i], strlen(starts[i])) == 0)
            refuse(&r, "init_lora_weights", "is \"%s\": that changes the frozen weights", start->valuestring);
    }
    *lora = (lora_t){
        .rank = get_count(&r, "r", 8), .alpha = get_real(&r, "lora_alpha", 8), .targets = get_targets(&r)};
    cJSON_Delete(object);
    return r.good;
}
