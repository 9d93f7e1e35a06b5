/* Addresses to listen on and to connect to: "127.0.0.1:11434", "[::1]:11434", "unix:/run/kuno/socket". Names are not
 * looked up: nothing here asks a network. */
#ifndef KN_HTTP_ADDRESS_H
#define KN_HTTP_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

typedef struct kn_address {
    struct sockaddr_storage storage;
    socklen_t len;
} kn_address;

/* The whole text or an error; an IP address needs its port, 0 to 65535. */
bool kn_address_parse(const char *text, kn_address *ret, kn_error *err);

typedef struct kn_address_text {
    char text[128];
} kn_address_text;
kn_address_text kn_address_print(const kn_address *a);

/* 127.0.0.0/8, ::1, their IPv4-mapped form, or a Unix socket: others cannot come from or get to another machine. */
bool kn_address_is_loopback(const kn_address *a);

uint16_t kn_address_port(const kn_address *a); /* 0 for a Unix socket */

/* Equal but for the port: the same machine. */
bool kn_address_is_same_host(const kn_address *a, const kn_address *b);

#endif
