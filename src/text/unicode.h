/* As much of Unicode as is needed here: three classes of characters and normalization form C for tokenizers, case
 * folding for searches. */
#ifndef KN_TEXT_UNICODE_H
#define KN_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* General categories L and N of Unicode 16.0, and the 25 characters with the property White_Space. */
typedef enum kn_char_kind { KN_CHAR_OTHER, KN_CHAR_LETTER, KN_CHAR_NUMBER, KN_CHAR_SPACE } kn_char_kind;
kn_char_kind kn_char_kind_of(uint32_t c);

/* True when the text is in NFC beyond doubt, which holds for nearly everything that people type. It must be UTF-8. */
bool kn_nfc_is_certain(const char *text, size_t len);

/* Adds the text in NFC (Unicode 14.0) to `into`. It must be UTF-8; it grows to at most three times its bytes. */
bool kn_nfc_add(const char *text, size_t len, kn_buf *into, kn_error *err);

/* Adds the text in NFC and without its cases (simple folding, Unicode 14.0): what is alike but for these is alike then.
 * It must be UTF-8; it grows to at most four times its bytes. */
bool kn_fold_add(const char *text, size_t len, kn_buf *into, kn_error *err);

#endif
