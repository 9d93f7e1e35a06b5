/* The Qwen pre-tokenizer: cuts text into the words that are encoded one by one. It is this expression, written out as a
 * scanner that looks at each character a fixed number of times:
 *
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
#ifndef KN_TEXT_SPLIT_H
#define KN_TEXT_SPLIT_H

/* The end of the word that begins at `at`. There must be at least one character before `end`, and all must be UTF-8. */
const char *kn_split_next(const char *at, const char *end);

#endif
