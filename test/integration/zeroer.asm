; A helper that fits into a boot sector: it zeroes eight sectors of the second disk, from sector 8 on, and switches its machine off.
;
; The BIOS loads it from the first sector of the first disk; its buffer is as empty as memory is after a start.

        bits 16
        org 0x7c00

BUFFER: equ 0x8000
FIRST:  equ 8
COUNT:  equ 8
WRITE:  equ 0x43                        ; with 64-bit sector numbers
SECOND: equ 0x81

        xor ax, ax
        mov ds, ax
        mov es, ax
        mov ss, ax
        mov sp, 0x7c00
        cld
        mov di, BUFFER
        mov cx, COUNT * 512 / 2
        rep stosw
        mov ah, WRITE
        mov dl, SECOND
        mov si, packet
        int 0x13
        jc Hang                         ; nothing was written: whoever waits for the end sees that it does not come
        mov dx, 0x604                   ; ACPI's sleep register as this machine's BIOS sets it up
        mov ax, 0x2000
        out dx, ax
Hang:   hlt
        jmp Hang

        align 4
packet: db 16, 0
        dw COUNT
        dw BUFFER, 0
        dq FIRST

        times 510 - ($ - $$) db 0
        dw 0xaa55
