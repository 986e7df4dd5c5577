; A guest that fits into a boot sector: it writes numbered sectors to its own disk for as long as it runs.
;
; The BIOS loads it from the first sector.  The second sector counts its starts; each start has 2048 sectors to itself and
; goes round them, so that no start writes over what an earlier one was promised.  A sector is full of the number of its
; write: the start in the highest byte, the write below.  When the BIOS says that a sector is written, and not before, the
; guest prints the number on the serial console: eight hexadecimal digits and a newline.

        bits 16
        org 0x7c00

BUFFER: equ 0x8000
READ:   equ 0x42                        ; functions of the BIOS for disks, with 64-bit sector numbers
WRITE:  equ 0x43

        xor ax, ax
        mov ds, ax
        mov es, ax
        mov ss, ax
        mov sp, 0x7c00
        cld
        sti
        mov [drive], dl                 ; the BIOS says which disk it has loaded this from

        mov byte [sector], 1
        mov ah, READ
        call Disk
        inc byte [BUFFER]
        mov al, [BUFFER]
        mov [number + 3], al
        mov ah, WRITE
        call Disk

        mov ax, 0x00e3                  ; open the first serial port: 9600 bits/s, 8 bits, no parity
        xor dx, dx
        int 0x14

Next:   hlt                             ; until the clock ticks, 18 times a second
        inc dword [number]
        mov eax, [number]
        mov di, BUFFER
        mov cx, 512 / 4
        rep stosd
        mov ebx, eax
        shr ebx, 24
        shl ebx, 11
        and eax, 2047
        add eax, ebx                    ; sector: start * 2048 + write % 2048
        mov [sector], eax
        mov ah, WRITE
        call Disk

        mov cx, 8
Digit:  rol dword [number], 4           ; the highest digit first; after eight it is as it was
        mov al, [number]
        and al, 15
        mov bx, digits
        xlatb
        call Put
        loop Digit
        mov al, 10
        call Put
        jmp Next

Disk:   push ax                         ; read or write a sector until it is done
        mov al, 0
        mov dl, [drive]
        mov si, packet
        int 0x13
        pop ax
        jc Disk
        ret

Put:    mov ah, 1                       ; send AL
        xor dx, dx
        int 0x14
        ret

digits: db '0123456789abcdef'
drive:  db 0
number: dd 0
packet: db 16, 0                        ; its size
        dw 1                            ; sectors
        dw BUFFER, 0                    ; offset and segment of the memory
sector: dq 0

        times 510 - ($ - $$) db 0
        dw 0xaa55
