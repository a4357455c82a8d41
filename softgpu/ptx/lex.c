/* lex.c: tokens, and the names that are declared. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/internal.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) /* of a name, behind its first character */
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

static int digit_of(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

static char peek(const sg_ptx_reader_t *reader, size_t ahead)
{
    return (size_t)(reader->end - reader->at) > ahead ? reader->at[ahead] : '\0';
}

/* Spaces, comments, and lines of the preprocessor's kind (`#`). */
static void skip_space(sg_ptx_reader_t *reader)
{
    for (;;) {
        char c = peek(reader, 0);
        if (c == '\n' || c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            reader->line += c == '\n';
            reader->at++;
        } else if ((c == '/' && peek(reader, 1) == '/') || c == '#') {
            while (reader->at < reader->end && *reader->at != '\n')
                reader->at++;
        } else if (c == '/' && peek(reader, 1) == '*') {
            uint32_t line = reader->line;
            for (reader->at += 2; !(peek(reader, 0) == '*' && peek(reader, 1) == '/'); reader->at++) {
                if (reader->at == reader->end)
                    sg_ptx_fail_at(reader, line, "this comment does not end");
                reader->line += *reader->at == '\n';
            }
            reader->at += 2;
        } else {
            return;
        }
    }
}

/* 0f and 8 digits, or 0d and 16: the bits of a float. */
static bool lex_float_bits(sg_ptx_reader_t *reader, sg_ptx_token_t *token)
{
    char mark = peek(reader, 1);
    bool single = mark == 'f' || mark == 'F';
    if (peek(reader, 0) != '0' || (!single && mark != 'd' && mark != 'D'))
        return false;
    uint32_t digits = single ? 8 : 16;
    for (uint32_t i = 0; i < digits; i++) {
        int digit = digit_of(peek(reader, 2 + i));
        if (digit > 15)
            sg_ptx_fail_at(reader, reader->line, "a float constant 0%c has %u hexadecimal digits", mark,
                           digits);
        token->bits = token->bits << 4 | (unsigned)digit;
    }
    token->kind = SG_PTX_FLOAT;
    token->single = single;
    reader->at += 2 + digits;
    return true;
}

static double decimal(sg_ptx_reader_t *reader, const char *at, size_t length)
{
    char text[64];
    if (length >= sizeof text)
        sg_ptx_fail_at(reader, reader->line, "this number is too long");
    memcpy(text, at, length);
    text[length] = '\0';
    locale_t c_locale =
        newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* the program's may have a decimal comma */
    if (c_locale == (locale_t)0)
        sg_ptx_fail_at(reader, reader->line, "no memory");
    double value = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    return value;
}

static void lex_number(sg_ptx_reader_t *reader, sg_ptx_token_t *token)
{
    if (lex_float_bits(reader, token))
        return;
    const char *begin = reader->at;
    size_t length = 0;
    while (is_digit(peek(reader, length)))
        length++;
    bool real = peek(reader, length) == '.' && is_digit(peek(reader, length + 1));
    if (real)
        for (length++; is_digit(peek(reader, length));)
            length++;
    size_t sign = peek(reader, length + 1) == '-' || peek(reader, length + 1) == '+';
    if ((peek(reader, length) == 'e' || peek(reader, length) == 'E') &&
        is_digit(peek(reader, length + 1 + sign))) {
        real = true;
        for (length += 1 + sign; is_digit(peek(reader, length));)
            length++;
    }
    if (real) {
        double value = decimal(reader, begin, length);
        memcpy(&token->bits, &value, sizeof value);
        token->kind = SG_PTX_FLOAT;
        reader->at += length;
        return;
    }
    unsigned base = 10;
    if (peek(reader, 0) == '0' && is_letter(peek(reader, 1)) && peek(reader, 1) != 'U') {
        char mark = peek(reader, 1);
        base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
        reader->at += base == 8 ? 1 : 2;
    }
    token->kind = SG_PTX_INTEGER;
    const char *first = reader->at;
    for (int digit; (digit = digit_of(peek(reader, 0))) < (int)base; reader->at++)
        if (__builtin_mul_overflow(token->bits, base, &token->bits) ||
            __builtin_add_overflow(token->bits, (unsigned)digit, &token->bits))
            sg_ptx_fail_at(reader, reader->line, "this number has more than 64 bits");
    bool digits = reader->at != first;
    if (peek(reader, 0) == 'U')
        reader->at++;
    if (!digits || is_letter(peek(reader, 0)))
        sg_ptx_fail_at(reader, reader->line, "not a number: %.*s", (int)(reader->at - begin + 1), begin);
}

void sg_ptx_next(sg_ptx_reader_t *reader)
{
    skip_space(reader);
    sg_ptx_token_t token = {.kind = SG_PTX_MARK, .line = reader->line};
    const char *begin = reader->at;
    char c = peek(reader, 0);
    if (reader->at == reader->end) {
        token.kind = SG_PTX_END;
    } else if (is_digit(c)) {
        lex_number(reader, &token);
    } else if (is_letter(c) || (c == '%' && is_letter(peek(reader, 1)))) {
        token.kind = SG_PTX_NAME;
        for (reader->at++; is_letter(peek(reader, 0));)
            reader->at++;
    } else if (c == '.' && is_letter(peek(reader, 1))) {
        token.kind = SG_PTX_DOTTED;
        begin = ++reader->at;
        while (is_letter(peek(reader, 0)) ||
               (peek(reader, 0) == ':' && peek(reader, 1) == ':' && is_letter(peek(reader, 2))))
            reader->at += peek(reader, 0) == ':' ? 2 : 1;
    } else if (c == '"') {
        token.kind = SG_PTX_STRING;
        begin = ++reader->at;
        while (peek(reader, 0) != '"') {
            if (reader->at == reader->end || *reader->at == '\n')
                sg_ptx_fail_at(reader, token.line, "this string does not end");
            reader->at++;
        }
    } else {
        reader->at++;
    }
    if (reader->at - begin > 65535)
        sg_ptx_fail_at(reader, token.line, "this name is too long");
    token.text = (sg_ptx_text_t){begin, (uint32_t)(reader->at - begin)};
    if (token.kind == SG_PTX_STRING)
        reader->at++;
    reader->token = token;
}

void sg_ptx_skip_line(sg_ptx_reader_t *reader)
{
    uint32_t line = reader->token.line;
    while (reader->token.kind != SG_PTX_END && reader->token.line == line)
        sg_ptx_next(reader);
}

void sg_ptx_skip_statement(sg_ptx_reader_t *reader)
{
    while (reader->token.kind != SG_PTX_END && !sg_ptx_take(reader, ';'))
        sg_ptx_next(reader);
}

bool sg_ptx_is_mark(const sg_ptx_reader_t *reader, char mark)
{
    return reader->token.kind == SG_PTX_MARK && *reader->token.text.at == mark;
}

bool sg_ptx_take(sg_ptx_reader_t *reader, char mark)
{
    if (!sg_ptx_is_mark(reader, mark))
        return false;
    sg_ptx_next(reader);
    return true;
}

static _Noreturn void fail_expected(sg_ptx_reader_t *reader, const char *what)
{
    if (reader->token.kind == SG_PTX_END)
        sg_ptx_fail(reader, "the text ends where %s is expected", what);
    sg_ptx_fail(reader, "%s is expected, not '%.*s'", what, (int)reader->token.text.length,
                reader->token.text.at);
}

void sg_ptx_expect(sg_ptx_reader_t *reader, char mark)
{
    if (!sg_ptx_take(reader, mark))
        fail_expected(reader, (char[]){'\'', mark, '\'', '\0'});
}

bool sg_ptx_is_dotted(const sg_ptx_reader_t *reader, const char *word)
{
    return reader->token.kind == SG_PTX_DOTTED && sg_ptx_text_is(reader->token.text, word);
}

bool sg_ptx_take_dotted(sg_ptx_reader_t *reader, const char *word)
{
    if (!sg_ptx_is_dotted(reader, word))
        return false;
    sg_ptx_next(reader);
    return true;
}

sg_ptx_text_t sg_ptx_expect_name(sg_ptx_reader_t *reader, const char *what)
{
    if (reader->token.kind != SG_PTX_NAME)
        fail_expected(reader, what);
    sg_ptx_text_t text = reader->token.text;
    sg_ptx_next(reader);
    return text;
}

uint32_t sg_ptx_expect_count(sg_ptx_reader_t *reader, uint32_t most, const char *what)
{
    if (reader->token.kind != SG_PTX_INTEGER)
        fail_expected(reader, what);
    if (reader->token.bits > most)
        sg_ptx_fail(reader, "%s is %u at most", what, most);
    uint32_t count = (uint32_t)reader->token.bits;
    sg_ptx_next(reader);
    return count;
}

/* ---- names ---- */
static uint32_t bucket_of(sg_ptx_text_t text)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < text.length; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 16777619u;
    return (hash ^ hash >> 15) % SG_PTX_BUCKETS;
}

const sg_ptx_name_t *sg_ptx_lookup(const sg_ptx_reader_t *reader, sg_ptx_text_t text)
{
    for (const sg_ptx_name_t *name = reader->buckets[bucket_of(text)]; name != NULL; name = name->next)
        if (name->text.length == text.length && memcmp(name->text.at, text.at, text.length) == 0)
            return name;
    return NULL;
}

sg_ptx_name_t *sg_ptx_declare(sg_ptx_reader_t *reader, sg_ptx_text_t text, sg_ptx_name_kind_t kind,
                              void *thing)
{
    const sg_ptx_name_t *before = sg_ptx_lookup(reader, text);
    if (before != NULL && before->depth == reader->depth)
        sg_ptx_fail(reader, "'%.*s' is declared twice", (int)text.length, text.at);
    sg_ptx_name_t *name = sg_ptx_alloc(reader, sizeof *name);
    sg_ptx_name_t **bucket = &reader->buckets[bucket_of(text)];
    *name = (sg_ptx_name_t){.text = text,
                            .kind = kind,
                            .thing = thing,
                            .depth = reader->depth,
                            .next = *bucket,
                            .declared_before = reader->declared};
    *bucket = name;
    reader->declared = name;
    return name;
}

void sg_ptx_leave_scope(sg_ptx_reader_t *reader)
{
    /* The last that was declared is the first in its bucket. */
    for (; reader->declared != NULL && reader->declared->depth == reader->depth;
         reader->declared = reader->declared->declared_before)
        reader->buckets[bucket_of(reader->declared->text)] = reader->declared->next;
    reader->depth--;
}
