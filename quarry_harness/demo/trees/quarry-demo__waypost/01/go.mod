module example.org/waypost

go 1.19
