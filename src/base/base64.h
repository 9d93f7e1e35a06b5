/* Base64 (RFC 4648, section 4) as JSON carries pictures: in one piece, padded. Anything else is refused, so that two
 * programs never read different bytes from one text. */
#ifndef KN_BASE_BASE64_H
#define KN_BASE_BASE64_H

#include "base/buf.h"

/* Adds the bytes to `into`; with into NULL it only checks. The error says what is wrong and quotes nothing. */
bool kn_base64_decode(const char *text, size_t len, kn_buf *into, kn_error *err);

/* Adds the bytes as text. */
bool kn_base64_encode(const void *data, size_t len, kn_buf *into) KN_MUST_USE;

#endif
