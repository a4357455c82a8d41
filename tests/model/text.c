#include "text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "model/base/rng.h"

#define WORDS 200

typedef struct writer {
    char *text;
    size_t size, length;
    uint64_t seed, drawn;
    char words[WORDS][12];
} writer_t;

static unsigned draw(writer_t *w, unsigned bound)
{
    return (unsigned)(rng_at(w->seed, w->drawn++) % bound);
}

static void put(writer_t *w, const char *piece)
{
    for (; *piece != '\0'; piece++, w->length++)
        if (w->length < w->size)
            w->text[w->length] = *piece;
}

static void make_words(writer_t *w)
{
    for (int i = 0; i < WORDS; i++) {
        size_t syllables = 1 + draw(w, 4);
        for (size_t s = 0; s < syllables; s++) {
            w->words[i][2 * s] = "bdfgklmnprst"[draw(w, 12)];
            w->words[i][2 * s + 1] = "aeiou"[draw(w, 5)];
        }
    }
}

static void write_sentence(writer_t *w, bool last_of_line)
{
    unsigned count = 4 + draw(w, 8);
    for (unsigned i = 0; i < count; i++) {
        char word[12];
        unsigned first = draw(w, WORDS);
        strcpy(word, w->words[first * draw(w, WORDS) / WORDS]);
        if (i == 0)
            word[0] = (char)toupper(word[0]);
        put(w, i == 0 ? "" : " ");
        put(w, word);
    }
    put(w, last_of_line ? ".\n" : ". ");
}

void text_make(char *text, size_t size, uint64_t seed)
{
    writer_t writer = {.text = text, .size = size, .seed = seed};
    make_words(&writer);
    for (int sentence = 1; writer.length < size; sentence++)
        write_sentence(&writer, sentence % 3 == 0);
}
