#include "model/files/weights.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    char *text = c.good ? cJSON_Print(c.object) : NULL;
    bool good = text != NULL ? write_text(path, text, fault) : fault_set(fault, "%s: no memory for it", path);
    cJSON_free(text);
    cJSON_Delete(c.object);
    return good;
}
