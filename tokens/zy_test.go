package tokens
import ("testing";"fmt";"os";"strings")
func TestZY(t *testing.T){
 b,_:=os.ReadFile("/tmp/tk/gc16.txt"); want:=make([]class,0x110000)
 for i:=range want { want[i]=punct|prefix }
 for _,l:=range strings.Split(strings.TrimSpace(string(b)),"\n") { var x int; var c string; fmt.Sscanf(l,"%x %s",&x,&c)
  switch { case c=="Lu"||c=="Lt": want[x]=upper; case c=="Ll": want[x]=lower; case c[0]=='L': want[x]=bothCases; case c[0]=='M': want[x]=mark; case c[0]=='N': want[x]=digit } }
 cl:=newClasses(); n:=0
 last:=rune(-2); var lc class; start:=rune(0)
 flush:=func(){ if last>=0 { nm:=map[class]string{upper:"upper",lower:"lower",bothCases:"bothCases",mark:"mark",digit:"digit"}[lc]; fmt.Printf("{0x%04X, 0x%04X, %s},\n",start,last,nm) } }
 for r:=rune(0);r<0x110000;r++ { w:=want[r]; g:=cl.of(r); if g&space!=0 {continue}; if w!=g { n++; if r!=last+1||w!=lc||g!=punct|prefix { flush(); start=r; lc=w; if g!=punct|prefix {fmt.Println("CHANGED",g)} }; last=r } }
 flush(); fmt.Println(n)
}
