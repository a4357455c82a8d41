/* text.h: a text for the tests, made from a seed: pseudo-words in sentences, some words much more frequent
 * than others.
 *
 * Numbers are drawn one after the other: the i-th is rng_at(seed, i) (model/base/rng.h), taken modulo what is
 * needed. 200 words: 1 + draw(4) syllables, each a consonant of "bdfgklmnprst" and a vowel of "aeiou";
 *   sentences of 4 + draw(8) words, each word number a * draw(200) / 200 with a = draw(200) drawn before; the
 * first letter is a capital; a full stop and a space end a sentence, every third one a full stop and a new
 * line; cut off after `size` bytes. reference/make_reference.py makes the same text.
 */
#ifndef EBB_TESTS_MODEL_TEXT_H
#define EBB_TESTS_MODEL_TEXT_H

#include <stddef.h>
#include <stdint.h>

void text_make(char *text, size_t size, uint64_t seed);

#endif
