/* translate.c: the module around its functions: variables, shared memory, the table of kernels. */
#include "softgpu/ptx/translate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/translator.h"

/* ---- texts and memory ---- */
void sg_ptx_refuse(sg_ptx_translator_t *t, const char *format, ...)
{
    char why[360];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    const uint32_t line = t->insn ? t->insn->line : t->function ? t->function->line : 0;
    char name[96] = "";
    for (uint32_t i = 0; t->insn && i <= t->insn->type_count; i++)
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", i ? "." : "",
                 i ? sg_ptx_type_text(t->insn->type[i - 1]) : sg_ptx_opcode_text(t->insn->opcode));
    t->error->line = line;
    snprintf(t->error->text, sizeof t->error->text, "line %u: %s%s%s", line, name, t->insn ? ": " : "", why);
    longjmp(t->failed, 1);
}

const char *sg_ptx_text(sg_ptx_translator_t *t, const char *format, ...)
{
    char *at = t->pool + t->pool_used;
    const size_t room = SG_PTX_POOL_BYTES - t->pool_used;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(at, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room)
        sg_ptx_refuse(t, "it is too large");
    t->pool_used += (size_t)length + 1;
    return at;
}

void sg_ptx_line(sg_ptx_translator_t *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(t->out, format, arguments);
    va_end(arguments);
    fputc('\n', t->out);
}

void *sg_ptx_room(sg_ptx_translator_t *t, size_t count, size_t bytes)
{
    sg_ptx_room_t *room =
        count > (SIZE_MAX - sizeof *room) / bytes ? NULL : calloc(1, sizeof *room + count * bytes);
    if (room == NULL)
        sg_ptx_refuse(t, "no memory");
    room->next = t->rooms;
    t->rooms = room;
    return room->bytes;
}

static const sg_ptx_function_t *aliased(const sg_ptx_function_t *function)
{
    return function->alias_of != NULL ? function->alias_of : function;
}

uint32_t sg_ptx_function_number(sg_ptx_translator_t *t, const sg_ptx_function_t *function)
{
    function = aliased(function);
    for (uint32_t i = 0; i < t->module->function_count; i++)
        if (t->module->functions[i] == function)
            return i;
    sg_ptx_refuse(t, "function '%s' is not the module's", function->name);
}

const char *sg_ptx_function_name(sg_ptx_translator_t *t, const sg_ptx_function_t *function)
{
    function = aliased(function);
    if (!function->defined) {
        if (!strcmp(function->name, "vprintf"))
            return "sg_vprintf";
        if (!strcmp(function->name, "__assertfail"))
            return "sg_assertfail";
        if (!strcmp(function->name, "malloc"))
            return "sg_malloc";
        if (!strcmp(function->name, "free"))
            return "sg_free";
        sg_ptx_refuse(t, "function '%s' is declared, but not here", function->name);
    }
    return sg_ptx_text(t, "f%u", sg_ptx_function_number(t, function));
}

/* An instruction of a function that was inlined, from a header, is where the function's own file was left last. */
static const sg_ptx_insn_t *own_place(const sg_ptx_function_t *f, const sg_ptx_insn_t *insn)
{
    const sg_ptx_insn_t *first = f->insns, *at = insn;
    while (first < insn && !first->source_line)
        first++;
    while (at > first && at->source_file != first->source_file)
        at--;
    return at;
}

uint32_t sg_ptx_source_line(sg_ptx_translator_t *t, const sg_ptx_insn_t *insn, const char **file)
{
    insn = own_place(t->function, insn);
    const bool known = insn->source_line && insn->source_file < t->module->file_count &&
                       t->module->files[insn->source_file] != NULL;
    *file = "PTX";
    if (!known)
        return insn->line;
    char *name = sg_ptx_room(t, 2 * strlen(t->module->files[insn->source_file]) + 1, 1), *end = name;
    for (const char *at = t->module->files[insn->source_file]; *at; at++) {
        if (*at == '"' || *at == '\\')
            *end++ = '\\';
        *end++ = *at;
    }
    *file = name;
    return insn->source_line;
}

const char *sg_ptx_place_text(sg_ptx_translator_t *t)
{
    const char *file;
    const uint32_t line = sg_ptx_source_line(t, t->insn, &file);
    return sg_ptx_text(t, "(softgpu_place_t){\"%s\", %u}", file, line);
}

/* ---- variables ---- */
static void place(sg_ptx_translator_t *t, const sg_ptx_variable_t *v)
{
    if (v->space == SG_PTX_SPACE_GLOBAL || v->space == SG_PTX_SPACE_CONST) {
        if (v->linkage == SG_PTX_EXTERN)
            return;
        t->globals[t->global_count] = (sg_ptx_placed_t){v, t->global_count};
        t->global_count++;
    } else if (v->space == SG_PTX_SPACE_SHARED) {
        t->shared[t->shared_count++] = (sg_ptx_placed_t){v, 0};
    }
}

/* ---- what is in this part ---- */
static void uses_operand(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, bool *used)
{
    for (uint32_t i = 0; i < t->shared_count; i++)
        if (operand->variable != NULL && t->shared[i].variable == operand->variable)
            used[i] = true;
}

/* Which shared variables a function and all that it calls use. */
static void uses(sg_ptx_translator_t *t, const sg_ptx_function_t *f, bool *used, bool *seen)
{
    const sg_ptx_module_t *m = t->module;
    f = aliased(f);
    for (uint32_t k = 0; k < m->function_count; k++)
        if (m->functions[k] == f) {
            if (seen[k])
                return;
            seen[k] = true;
        }
    for (uint32_t i = 0; i < f->insn_count; i++) {
        const sg_ptx_insn_t *insn = &f->insns[i];
        for (uint32_t o = 0; o < insn->operand_count && insn->call == NULL; o++)
            if (insn->operands[o].kind == SG_PTX_SYMBOL || insn->operands[o].kind == SG_PTX_ADDRESS)
                uses_operand(t, &insn->operands[o], used);
        if (insn->call == NULL)
            continue;
        if (insn->call->callee != NULL)
            uses(t, insn->call->callee, used, seen);
        for (uint32_t k = 0; insn->call->callee == NULL && k < m->function_count; k++)
            if (!m->functions[k]->entry)
                uses(t, m->functions[k], used, seen);
    }
}

/* A kernel has no other's shared variables. */
static void choose(sg_ptx_translator_t *t)
{
    const sg_ptx_module_t *m = t->module;
    t->written = sg_ptx_room(t, m->function_count + 1, sizeof *t->written);
    if (t->part < m->function_count) {
        bool *used = sg_ptx_room(t, t->shared_count + 1, sizeof *used);
        uint32_t kept = 0;
        uses(t, m->functions[t->part], used, t->written);
        for (uint32_t i = 0; i < t->shared_count; i++)
            if (used[i])
                t->shared[kept++] = t->shared[i];
        t->shared_count = kept;
    }
    for (uint32_t f = 0; f < m->function_count; f++)
        t->written[f] = m->functions[f]->defined && (t->part == SG_PTX_WHOLE || t->written[f]);
}

/* Shared memory: 16 bytes that are no variable, so that none is at 0; variables; barriers; what CUDA reserves; dynamic memory.
 * Variables have gaps between them, in which checked mode sees what runs over an end. */
enum { BARRIERS_BYTES = 1024 /* sg_barriers_t */, RESERVED_BYTES = 1024, GAP_BYTES = 16 };

static void place_shared(sg_ptx_translator_t *t)
{
    t->window_bytes = 16;
    for (uint32_t i = 0; i < t->shared_count; i++) {
        const sg_ptx_variable_t *v = t->shared[i].variable;
        const uint64_t align = v->align_bytes ? v->align_bytes : 1;
        t->has_dynamic = t->has_dynamic || v->bytes == 0;
        if (v->bytes == 0)
            continue;
        t->window_bytes = (t->window_bytes + align - 1) / align * align;
        t->shared[i].offset = t->window_bytes;
        t->window_bytes += v->bytes + GAP_BYTES;
    }
    t->barriers = (t->window_bytes + 15) / 16 * 16;
    t->reserved = t->barriers + BARRIERS_BYTES;
    t->dynamic = (t->reserved + RESERVED_BYTES + 1023) / 1024 * 1024;
    for (uint32_t i = 0; i < t->shared_count; i++)
        if (t->shared[i].variable->bytes == 0)
            t->shared[i].offset = t->dynamic;
    t->window_bytes = t->dynamic;
}

static void place_all(sg_ptx_translator_t *t)
{
    const sg_ptx_module_t *m = t->module;
    uint32_t most = m->variable_count;
    for (uint32_t f = 0; f < m->function_count; f++)
        most += m->functions[f]->variable_count;
    t->globals = sg_ptx_room(t, most, sizeof *t->globals);
    t->shared = sg_ptx_room(t, most, sizeof *t->shared);
    for (uint32_t i = 0; i < m->variable_count; i++)
        place(t, m->variables[i]);
    for (uint32_t f = 0; f < m->function_count; f++)
        for (uint32_t i = 0; i < m->functions[f]->variable_count; i++)
            place(t, m->functions[f]->variables[i]);
    choose(t);
    place_shared(t);
}

static bool takes_function(const sg_ptx_function_t *f)
{
    for (uint32_t i = 0; i < f->insn_count; i++)
        for (uint32_t o = 0; o < f->insns[i].operand_count; o++)
            if (f->insns[i].operands[o].function != NULL)
                return true;
    return false;
}

bool sg_ptx_has_parts(const sg_ptx_module_t *m)
{
    for (uint32_t i = 0; i < m->variable_count; i++)
        for (uint32_t r = 0; r < m->variables[i]->relocation_count; r++)
            if (m->variables[i]->relocations[r].function != NULL)
                return false;
    for (uint32_t f = 0; f < m->function_count; f++)
        if (takes_function(m->functions[f]))
            return false;
    return true;
}

/* Names of variables may be anything that PTX allows, $ too. */
static void write_shared(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "extern _Thread_local char window[] __asm__(\"softgpu_shared_window\") "
                   "__attribute__((visibility(\"hidden\")));");
    sg_ptx_line(t, "__asm__(\".pushsection .tbss.softgpu_shared,\\\"awT\\\",@nobits\\n.balign 1024\\n\"");
    sg_ptx_line(
        t, "\".type softgpu_shared_window, @tls_object\\n.size softgpu_shared_window, 16\\n.hidden "
           "softgpu_shared_window\\n.globl softgpu_shared_window\\nsoftgpu_shared_window:\\n.zero 16\\n\"");
    uint64_t at = 16;
    for (uint32_t i = 0; i < t->shared_count; i++) {
        const sg_ptx_variable_t *v = t->shared[i].variable;
        if (v->bytes == 0)
            continue;
        sg_ptx_line(t,
                    "\".zero %" PRIu64 "\\n.type \\\"%s.%u\\\", @tls_object\\n.size \\\"%s.%u\\\", %" PRIu64
                    "\\n\\\"%s.%u\\\":\\n.zero %" PRIu64 "\\n\"",
                    t->shared[i].offset - at, v->name, i, v->name, i, v->bytes, v->name, i, v->bytes);
        at = t->shared[i].offset + v->bytes;
    }
    sg_ptx_line(t,
                "\".zero %" PRIu64 "\\n.size softgpu_reserved, %u\\n.type softgpu_reserved, "
                "@tls_object\\nsoftgpu_reserved:\\n.zero %" PRIu64 "\\n\"",
                t->reserved - at, RESERVED_BYTES, t->dynamic - t->reserved);
    if (t->has_dynamic) {
        sg_ptx_line(t, "#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)");
        sg_ptx_line(t, "\"softgpu_dynamic_shared:\\n.zero \" TEXT(SOFTGPU_DYNAMIC_SHARED_BYTES) \"\\n\"");
    }
    sg_ptx_line(t, "\".popsection\\n\");");
}

static void write_words(sg_ptx_translator_t *t, const sg_ptx_variable_t *v)
{
    const uint64_t words = (v->bytes + 7) / 8;
    for (uint64_t k = 0, r = 0; k < words; k++) {
        uint64_t x = 0;
        if (v->image != NULL && 8 * k < v->image_bytes)
            memcpy(&x, v->image + 8 * k, v->image_bytes - 8 * k < 8 ? v->image_bytes - 8 * k : 8);
        for (r = 0; r < v->relocation_count; r++)
            if (v->relocations[r].offset_bytes / 8 == k)
                break;
        if (r == v->relocation_count) {
            if (x)
                sg_ptx_line(t, "[%" PRIu64 "] = UINT64_C(%" PRIu64 "),", k, x);
            continue;
        }
        const sg_ptx_relocation_t *to = &v->relocations[r];
        if (to->offset_bytes % 8 || to->bytes != 8 || to->shift_bits)
            sg_ptx_refuse(t, "'%s': a part of an address as initialiser", v->name);
        t->pool_used = 0;
        if (to->function != NULL) {
            sg_ptx_line(t, "[%" PRIu64 "] = (uint64_t)(uintptr_t)%s,", k,
                        sg_ptx_function_name(t, to->function));
            continue;
        }
        const sg_ptx_placed_t *placed = sg_ptx_place(t, to->variable);
        if (placed == NULL || to->variable->space == SG_PTX_SPACE_SHARED)
            sg_ptx_refuse(t, "'%s': the address of '%s' as initialiser", v->name, to->variable->name);
        sg_ptx_line(t,
                    "[%" PRIu64 "] = (uint64_t)(uintptr_t)&variables.g%" PRIu64 " + UINT64_C(%" PRIu64 "),",
                    k, placed->offset, (uint64_t)to->addend);
    }
}

static uint64_t words_of(const sg_ptx_variable_t *v)
{
    return v->bytes ? (v->bytes + 7) / 8 : 1;
}

static bool is_laid_out(const sg_ptx_translator_t *t, uint32_t global)
{
    for (uint32_t k = 0; t->layout != NULL && k < t->layout->count; k++)
        if (t->layout->at[k].variable == t->globals[global].variable)
            return true;
    return false;
}

/* The shared pages, with gaps where others have their variables. */
static void write_layout(sg_ptx_translator_t *t)
{
    const sg_ptx_layout_t *layout = t->layout;
    uint64_t at = 0;
    for (uint32_t k = 0; k < layout->count; k++) {
        const uint64_t offset = layout->at[k].offset_bytes, words = words_of(layout->at[k].variable);
        if (offset > at)
            sg_ptx_line(t, "char gap%u[%" PRIu64 "];", k, offset - at);
        sg_ptx_line(t, "uint64_t g%" PRIu64 "[%" PRIu64 "];", sg_ptx_place(t, layout->at[k].variable)->offset,
                    words);
        at = offset + 8 * words;
    }
    if (layout->bytes > at)
        sg_ptx_line(t, "char rest[%" PRIu64 "];", layout->bytes - at);
}

/* One structure of whole pages: nothing else is in them. With a layout, the module's pages are its first ones. Behind each
 * variable are 8 bytes at least that are of none. */
static void write_globals(sg_ptx_translator_t *t)
{
    if (t->global_count == 0)
        return;
    sg_ptx_line(t, "static struct {");
    if (t->layout != NULL)
        write_layout(t);
    for (uint32_t i = 0; i < t->global_count; i++)
        if (!is_laid_out(t, i))
            sg_ptx_line(t, "uint64_t g%u[%" PRIu64 "] __attribute__((aligned(256)));", i,
                        words_of(t->globals[i].variable) + 1);
    sg_ptx_line(t, "} __attribute__((aligned(4096))) variables = {");
    for (uint32_t i = 0; i < t->global_count; i++) {
        const sg_ptx_variable_t *v = t->globals[i].variable;
        if (v->image == NULL && v->relocation_count == 0)
            continue;
        sg_ptx_line(t, ".g%u = {", i);
        write_words(t, v);
        sg_ptx_line(t, "},");
    }
    sg_ptx_line(t, "};");
}

/* ---- kernels ---- */
static uint64_t static_bytes(sg_ptx_translator_t *t, const sg_ptx_function_t *f)
{
    bool *used = sg_ptx_room(t, t->shared_count, sizeof *used),
         *seen = sg_ptx_room(t, t->module->function_count, sizeof *seen);
    uint64_t bytes = 0;
    uses(t, f, used, seen);
    for (uint32_t i = 0; i < t->shared_count; i++)
        if (used[i] && t->shared[i].variable->bytes) {
            const uint64_t align =
                t->shared[i].variable->align_bytes ? t->shared[i].variable->align_bytes : 1;
            bytes = (bytes + align - 1) / align * align + t->shared[i].variable->bytes;
        }
    return bytes;
}

static uint32_t max_threads(const sg_ptx_function_t *f)
{
    const uint32_t *of = f->required_threads[0] ? f->required_threads : f->max_threads;
    return of[0] * (of[1] ? of[1] : 1) * (of[2] ? of[2] : 1);
}

/* ---- what a launch would cost ---- */
/* By the text alone, since trips of loops are not known before a launch: each access to global memory, and each operation, once for
 * each thread. Of a kernel with loops it is a lower bound. */
typedef struct cost {
    double bytes, operations;
    const char *kind;
} cost_t;

static void add_cost(const sg_ptx_insn_t *insn, cost_t *cost)
{
    const sg_ptx_modifier_t space = (sg_ptx_modifier_t)insn->modifier[SG_PTX_KIND_SPACE];
    const bool global = space == SG_PTX_SPACE_GLOBAL || space == SG_PTX_ABSENT;
    const sg_ptx_type_t type = insn->type_count ? (sg_ptx_type_t)insn->type[0] : SG_PTX_NO_TYPE;
    const uint32_t bytes = type ? sg_ptx_type_bits(type) / 8 * sg_ptx_vector_elements(insn) : 0;
    switch (insn->opcode) {
    case SG_PTX_OP_LD:
    case SG_PTX_OP_ST:
        cost->bytes += global ? bytes : 0;
        break;
    case SG_PTX_OP_ATOM:
    case SG_PTX_OP_RED: /* read and written */
        cost->bytes += global ? 2 * bytes : 0;
        break;
    case SG_PTX_OP_CP_ASYNC:
        cost->bytes += (double)insn->operands[2].bits;
        break;
    case SG_PTX_OP_MMA: /* of 32 lanes */
        cost->operations += 2.0 * insn->shape[0] * insn->shape[1] * insn->shape[2] / 32;
        cost->kind = insn->type[1] == SG_PTX_F64    ? "SOFTGPU_FP64"
                     : insn->type[1] == SG_PTX_TF32 ? "SOFTGPU_TF32"
                     : insn->type[1] == SG_PTX_BF16 ? "SOFTGPU_BF16"
                                                    : "SOFTGPU_FP16";
        break;
    case SG_PTX_OP_FMA:
        cost->operations += 2;
        break;
    case SG_PTX_OP_ADD:
    case SG_PTX_OP_SUB:
    case SG_PTX_OP_MUL:
    case SG_PTX_OP_DIV:
        cost->operations += sg_ptx_is_float(type);
        break;
    default:
        break;
    }
}

static void write_cost(sg_ptx_translator_t *t, uint32_t number)
{
    const sg_ptx_function_t *f = t->module->functions[number];
    cost_t cost = {.kind = "SOFTGPU_FP32"};
    for (uint32_t i = 0; i < f->insn_count; i++)
        add_cost(&f->insns[i], &cost);
    sg_ptx_line(t, "static softgpu_cost_t cost%u(const softgpu_launch_t *l)\n{", number);
    sg_ptx_line(
        t,
        "const double threads = (double)l->grid[0] * l->grid[1] * l->grid[2] * l->block[0] * l->block[1] * "
        "l->block[2];");
    sg_ptx_line(t, "return (softgpu_cost_t){%.17g * threads, %s, %.17g * threads};\n}", cost.operations,
                cost.kind, cost.bytes);
}

static void write_run(sg_ptx_translator_t *t, uint32_t number, uint64_t static_shared_bytes)
{
    sg_ptx_line(t, "static void main%u(const softgpu_launch_t *launch)\n{", number);
    sg_ptx_line(t, "sg_warp_t w;\nsg_warp_begin(&w, launch, self, window);");
    sg_ptx_line(t, "w.barriers = (sg_barriers_t *)(void *)(window + %" PRIu64 ");", t->barriers);
    sg_ptx_line(t, "w.static_shared_bytes = %" PRIu64 ";", static_shared_bytes);
    sg_ptx_line(t, "sg_warp_run(&w, f%u);\n}", number);
    sg_ptx_line(t, "static void run%u(const softgpu_launch_t *launch, uint64_t first, uint64_t count)\n{",
                number);
    sg_ptx_line(t, "const softgpu_entry_t entry = {main%u, &self, &current};", number);
    sg_ptx_line(t, "memset(window + %" PRIu64 ", 0, %u);", t->barriers, BARRIERS_BYTES + RESERVED_BYTES);
    sg_ptx_line(t, "sg_run_warps(launch, first, count, &entry);\n}");
}

static void write_kernel(sg_ptx_translator_t *t, uint32_t number)
{
    const sg_ptx_function_t *f = t->module->functions[number];
    const uint64_t bytes = static_bytes(t, f);
    const bool written = t->written[number];
    const char *run = written ? sg_ptx_text(t, "SG_RUN(run%u)", number) : "{NULL, NULL, NULL}";
    write_cost(t, number);
    if (written)
        write_run(t, number, bytes);
    sg_ptx_line(t, "static const softgpu_param_t params%u[] = {", number);
    for (uint32_t i = 0; i < f->prototype.parameter_count; i++)
        sg_ptx_line(t, "{%" PRIu64 ", %" PRIu64 ", %u},", sg_ptx_param_offset(f, i),
                    f->prototype.parameters[i]->bytes, f->prototype.parameters[i]->align_bytes);
    sg_ptx_line(t, "{0, 0, 0}};");
    sg_ptx_line(
        t, "static const softgpu_kernel_t kernel%u = {\"%s\", %u, params%u, %s, cost%u, %" PRIu64 ", %u, 0};",
        number, f->name, f->prototype.parameter_count, number, run, number, bytes, max_threads(f));
}

static bool has_row(const sg_ptx_translator_t *t, uint32_t number)
{
    const sg_ptx_function_t *f = t->module->functions[number];
    return f->entry && f->defined && (t->part == SG_PTX_OUTLINE || t->written[number]);
}

static void write_table(sg_ptx_translator_t *t)
{
    uint32_t kernels = 0;
    for (uint32_t f = 0; f < t->module->function_count; f++)
        if (has_row(t, f))
            write_kernel(t, f);
    sg_ptx_line(t, "static const softgpu_kernel_t *const kernels[] = {");
    for (uint32_t f = 0; f < t->module->function_count; f++)
        if (has_row(t, f)) {
            sg_ptx_line(t, "&kernel%u,", f);
            kernels++;
        }
    sg_ptx_line(t, "NULL};\nstatic const softgpu_variable_t named[] = {");
    uint32_t variables = 0;
    for (uint32_t i = 0; i < t->global_count; i++) {
        if (t->layout != NULL && !is_laid_out(t, i))
            continue;
        sg_ptx_line(t, "{\"%s\", &variables.g%u, %" PRIu64 "},", t->globals[i].variable->name, i,
                    t->globals[i].variable->bytes);
        variables++;
    }
    sg_ptx_line(t, "{NULL, NULL, 0}};");
    const char *pages =
        variables == 0 ? "NULL, NULL"
        : t->layout == NULL
            ? "(char *)&variables, (char *)(&variables + 1)"
            : sg_ptx_text(t, "(char *)&variables, (char *)&variables + %" PRIu64, t->layout->bytes);
    sg_ptx_line(t, "static const softgpu_unit_t unit = {\"PTX\", kernels, named, %u, %u, %s};", kernels,
                variables, pages);
    sg_ptx_line(
        t,
        "const softgpu_kernel_table_t softgpu_kernel_table = {SOFTGPU_ABI_VERSION, %u, kernels, 1, &unit};",
        kernels);
}

/* ---- the whole ---- */
/* What each thread of the system has. The driver's symbol tables know these names (module/symbols.c). */
static void write_thread(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "static _Thread_local const softgpu_thread_t *self __asm__(\"_ZN7softgpu4selfE\");");
    sg_ptx_line(
        t, "static _Thread_local const softgpu_launch_t *current __asm__(\"_ZN7softgpu14current_launchE\");");
    write_shared(t);
}

static void write_module(sg_ptx_translator_t *t)
{
    const sg_ptx_module_t *m = t->module;
    if (m->address_bits != 64)
        sg_ptx_refuse(t, "a module with addresses of %u bits", m->address_bits);
    place_all(t);
    sg_ptx_find_waits(t);
    sg_ptx_line(t, "#include \"%s\"", t->part == SG_PTX_OUTLINE ? "softgpu/kernel_abi.h" : "warp.h");
    for (uint32_t f = 0; f < m->function_count; f++)
        if (t->written[f] && sg_ptx_has_stack(m->functions[f])) {
            sg_ptx_line(t, "#include \"warp_stack.h\"");
            break;
        }
    for (uint32_t f = 0; f < m->function_count; f++)
        if (t->written[f])
            sg_ptx_line(t, "static void f%u(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments);", f);
    if (t->part != SG_PTX_OUTLINE)
        write_thread(t);
    write_globals(t);
    for (uint32_t f = 0; f < m->function_count; f++) {
        if (!t->written[f] || m->functions[f]->alias_of != NULL)
            continue;
        t->function = m->functions[f];
        sg_ptx_line(t, "/* %s */", m->functions[f]->name);
        sg_ptx_line(t, "static void f%u(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments)", f);
        sg_ptx_write_body(t);
        t->insn = NULL;
    }
    t->function = NULL;
    write_table(t);
}

static bool write_or_fail(sg_ptx_translator_t *t)
{
    if (setjmp(t->failed))
        return false;
    write_module(t);
    return true;
}

bool sg_ptx_translate(const sg_ptx_module_t *module, uint32_t part, const sg_ptx_layout_t *layout, FILE *out,
                      sg_ptx_error_t *error)
{
    *error = (sg_ptx_error_t){0};
    sg_ptx_translator_t t = {.module = module,
                             .part = part,
                             .layout = layout,
                             .out = out,
                             .error = error,
                             .pool = malloc(SG_PTX_POOL_BYTES)};
    bool ok = false;
    if (t.pool != NULL)
        ok = write_or_fail(&t);
    else
        snprintf(error->text, sizeof error->text, "no memory");
    while (t.rooms != NULL) {
        sg_ptx_room_t *next = t.rooms->next;
        free(t.rooms);
        t.rooms = next;
    }
    free(t.pool);
    return ok;
}
